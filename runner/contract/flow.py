"""Which expressions of a server's source are its args, followed through names, attributes, calls and returns.

An args object enters as a parameter with one of the given names. It is followed until nothing new is found: through
aliases, attributes of instances, closures, parameters of functions and classes of the same source, their results, and
functions handed on together with it (`partial`, `Process(target=..., args=...)`). Lines are not ordered: a name that
holds args once holds it everywhere in its scope. Where a callee is not known by name, everything in the source that is
called so is taken; where that is nothing, the use is reported as one that cannot be followed, never passed over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from runner.contract.source import Class, Place, Scope, Source, last_name

_COPIES = frozenset({"copy", "deepcopy"})
_HARMLESS = frozenset({"isinstance", "type", "repr", "str", "print", "id", "bool", "callable", "hash"})
"""Calls that read no field."""
_LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_WHOLE = frozenset({"vars", "dict", "asdict", "dir"})
_NOT_ARGS = frozenset(
    {"list", "tuple", "dict", "set", "str", "Sequence", "Iterable", "Mapping", "List", "Tuple", "Dict"}
)
"""Annotations of parameters that are called `args` and are something else."""


@dataclass(frozen=True, order=True)
class Read:
    """One read of one field. `default` is the source of what it falls back to, None where it has none."""

    field: str
    place: Place
    required: bool
    default: str | None = None


@dataclass(frozen=True, order=True)
class Unreadable:
    """A use of args whose fields this analysis cannot name."""

    place: Place
    why: str


@dataclass(frozen=True)
class Scan:
    """What a source reads off its args. `files` is how many were read."""

    reads: tuple[Read, ...]
    unreadable: tuple[Unreadable, ...]
    files: int


def scan(source: Source, names: tuple[str, ...] = ("args",)) -> Scan:
    """Everything that `source` reads off parameters called one of `names`, sorted by field and place."""
    for scope in source.scopes.values():
        scope.holding.update(_entrances(scope, names))
    while True:
        before = _state(source)
        reads: set[Read] = set()
        unreadable: set[Unreadable] = set()
        loose = {name for group in source.classes.values() for one in group for name in one.held}
        for module in source.modules:
            _Follower(source, module, reads, unreadable, loose).visit_module()
        if _state(source) == before:
            return Scan(tuple(sorted(reads, key=_order)), tuple(sorted(unreadable)), len(source.modules))


def _order(read: Read) -> tuple[str, Place, bool, str]:
    return read.field, read.place, read.required, read.default or ""


def _entrances(scope: Scope, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(scope.node, ast.Module):
        return
    for one in (*scope.node.args.posonlyargs, *scope.node.args.args, *scope.node.args.kwonlyargs):
        kind = one.annotation.value if isinstance(one.annotation, ast.Subscript) else one.annotation
        if one.arg in names and not (isinstance(kind, ast.Name) and kind.id in _NOT_ARGS):
            yield one.arg


def _state(source: Source) -> int:
    held = sum(len(one.held) for group in source.classes.values() for one in group)
    return held + sum(len(scope.holding) + scope.gives_args for scope in source.scopes.values())


class _Follower(ast.NodeVisitor):
    """One pass over one module."""

    def __init__(
        self, source: Source, module: Scope, reads: set[Read], unreadable: set[Unreadable], loose: set[str]
    ) -> None:
        self._source = source
        self._module = module
        self._scope = module
        self._reads = reads
        self._unreadable = unreadable
        self._loose = loose
        self._followed: set[int] = set()

    def visit_module(self) -> None:
        """Visit all statements of the module."""
        self.generic_visit(self._module.node)

    # --- what an expression is

    def _is_args(self, node: ast.AST | None) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._scope.home(name).holding
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self._is_args(value)
            case ast.IfExp(body=one, orelse=other):
                return self._is_args(one) or self._is_args(other)
            case ast.BoolOp(op=ast.Or() | ast.And(), values=values):
                return any(self._is_args(value) for value in values)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (owner := self._instance(name)) is not None:
                family = self._source.family(owner)
                return any(attr in one.held or _gives(one.methods.get(attr)) for one in family)
            case ast.Attribute(attr=attr):
                return attr in self._loose or any(map(_gives, self._source.functions.get(attr, [])))
            case ast.Call(func=func, args=[first, *_]) if last_name(func) in _COPIES:
                return self._is_args(first)
            case ast.Call(func=func):
                return any(callee.gives_args for callee, _ in self._callees(func))
            case _:
                return False

    def _instance(self, name: str) -> Class | None:
        """The class of which `name` is the instance that a method got as its first parameter."""
        scope = self._scope.home(name)
        if scope.owner is None or scope.positional[:1] != [name] or scope.decorated("staticmethod"):
            return None
        return scope.owner

    # --- where it goes

    def _hold(self, target: ast.expr, place: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                self._scope.home(name).holding.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (owner := self._instance(name)) is not None:
                owner.held.add(attr)
            case ast.Attribute(value=value, attr=attr) if not self._is_args(value):
                anything = Class(f"<{attr}>", (), ())
                known = self._source.classes.setdefault(anything.name, [anything])
                known[0].held.add(attr)
            case _:
                self._lost(place, "is stored where it is not followed")

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value, node)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value, node)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assign(node.target, node.value, node)
        self.generic_visit(node)

    def _assign(self, target: ast.expr, value: ast.expr, place: ast.AST) -> None:
        if self._is_args(value):
            self._hold(target, place)
        elif (
            isinstance(target, ast.Tuple | ast.List)
            and isinstance(value, ast.Tuple | ast.List)
            and len(target.elts) == len(value.elts)
            and not any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts))
        ):
            self._followed.add(id(value))
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other, place)

    def visit_Return(self, node: ast.Return) -> None:
        if self._is_args(node.value):
            self._scope.gives_args = True
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node, [*node.decorator_list], node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, [*node.decorator_list], node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, [], [node.body])

    def _function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        outside: list[ast.expr],
        body: list[ast.stmt] | list[ast.expr],
    ) -> None:
        inner = self._source.scopes[node]
        for default in (*node.args.defaults, *node.args.kw_defaults, *outside):
            if default is not None:
                self.visit(default)
        given = list(zip(reversed(inner.positional), reversed(node.args.defaults), strict=False))
        given += [
            (one.arg, value) for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if value
        ]
        inner.holding.update(name for name, value in given if self._is_args(value))
        outer, self._scope = self._scope, inner
        for one in body:
            self.visit(one)
        if isinstance(node, ast.Lambda) and self._is_args(node.body):
            inner.gives_args = True
        self._scope = outer

    # --- what is read

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_args(node.value):
            if node.attr == "__dict__":
                self._lost(node, "is read as a whole, through __dict__")
            elif isinstance(node.ctx, ast.Load) and not node.attr.startswith("__"):
                self._read(node.attr, node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute) and self._is_args(node.target.value):
            self._read(node.target.attr, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        first = node.args[0] if node.args else None
        if (
            isinstance(node.func, ast.Name)
            and name in ("getattr", "hasattr", "setattr", "delattr")
            and self._is_args(first)
        ):
            self._by_name(node, name)
        elif name in _WHOLE and self._is_args(first):
            self._lost(node, f"is read as a whole, through {name}()")
        elif not ((isinstance(node.func, ast.Name) and name in _HARMLESS) or name in _COPIES):
            self._pass_on(node, name)
        self.generic_visit(node)

    def _by_name(self, node: ast.Call, how: str) -> None:
        field = node.args[1] if len(node.args) > 1 else None
        if how in ("setattr", "delattr"):
            return
        if not (isinstance(field, ast.Constant) and isinstance(field.value, str)):
            self._lost(node, f"is read by a name that is computed: {ast.unparse(node)}")
        elif how == "hasattr":
            self._reads.add(Read(field.value, self._place(node), required=False))
        else:
            default = ast.unparse(node.args[2]) if len(node.args) > 2 else None
            self._reads.add(Read(field.value, self._place(node), required=default is None, default=default))

    def _read(self, field: str, node: ast.AST) -> None:
        self._reads.add(Read(field, self._place(node), required=True))

    def _pass_on(self, node: ast.Call, name: str) -> None:
        """Give parameters of callees what they are called with."""
        given: list[tuple[int | str, ast.expr]] = list(enumerate(node.args))
        given += [(one.arg or "**", one.value) for one in node.keywords]
        function: ast.expr = node.func
        if node.args and not self._callees(node.func) and self._callees(node.args[0]):
            function = node.args[0]  # partial(f, args), to_thread(f, args), submit(f, args)
            given = [(at - 1 if isinstance(at, int) else at, value) for at, value in given if at != 0]
        target = next((one.value for one in node.keywords if one.arg == "target"), None)
        bundle = next((one.value for one in node.keywords if one.arg == "args"), None)
        if target is not None and isinstance(bundle, ast.Tuple | ast.List):  # Process(target=f, args=(args,))
            self._followed.add(id(bundle))
            function, given = target, list(enumerate(bundle.elts))
        passed = [(at, value) for at, value in given if self._is_args(value)]
        if not passed or (name in _LOGGING and not self._callees(function)):
            return
        callees, made = self._callees(function), self._made(function)
        for at, value in passed:
            taken = [self._take(callee, at, skip) for callee, skip in callees]
            taken += [self._keep(one, at) for one in made]
            if not any(taken):
                self._lost(value, f"goes to {ast.unparse(function)}(), which this source does not define")

    def _take(self, callee: Scope, at: int | str, skip: int) -> bool:
        names = callee.positional
        if isinstance(at, int) and at + skip < len(names):
            callee.holding.add(names[at + skip])
            return True
        if isinstance(at, str) and at in callee.named:
            callee.holding.add(at)
            return True
        return False

    def _keep(self, made: Class, at: int | str) -> bool:
        if isinstance(at, int) and at < len(made.fields):
            made.held.add(made.fields[at])
            return True
        if isinstance(at, str) and at in made.fields:
            made.held.add(at)
            return True
        return False

    # --- who is called

    def _callees(self, func: ast.expr) -> list[tuple[Scope, int]]:
        """Functions that this may call, each with the number of parameters that the call itself fills."""
        match func:
            case ast.Name(id=name):
                functions, classes = self._defined(name)
                return [(one, 0) for one in functions] + self._constructors(classes)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (owner := self._instance(name)) is not None:
                return self._methods(self._source.family(owner), attr)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attr) if self._scope.owner is not None:
                return self._methods(self._source.family(self._scope.owner)[1:], attr)
            case ast.Attribute(attr=attr):
                found = [(one, int(self._bound_call(one))) for one in self._source.functions.get(attr, [])]
                return found + self._constructors(self._source.classes.get(attr, []))
            case _:
                return []

    @staticmethod
    def _bound_call(callee: Scope) -> bool:
        return callee.owner is not None and not callee.decorated("staticmethod")

    def _methods(self, family: list[Class], name: str) -> list[tuple[Scope, int]]:
        found = [one.methods[name] for one in family if name in one.methods]
        return [(one, int(self._bound_call(one))) for one in found]

    def _constructors(self, classes: list[Class]) -> list[tuple[Scope, int]]:
        return [found for one in classes for found in self._methods(self._source.family(one), "__init__")]

    def _made(self, func: ast.expr) -> list[Class]:
        """Classes with a generated `__init__` that this call makes an instance of."""
        name = last_name(func)
        classes = self._defined(name)[1] if isinstance(func, ast.Name) else self._source.classes.get(name, [])
        return [one for one in classes if one.fields and "__init__" not in one.methods]

    def _defined(self, name: str) -> tuple[list[Scope], list[Class]]:
        """Functions and classes that `name` stands for here; imported ones are found by the name they have there."""
        scope: Scope | None = self._scope
        while scope is not None:
            if name in scope.functions:
                return [scope.functions[name]], []
            if name in scope.classes:
                return [], [scope.classes[name]]
            if name in scope.bound:
                break
            scope = scope.outer
        origin = self._module.imports.get(name)
        if origin is None:
            if name == "cls" and self._scope.owner is not None:
                return [], [self._scope.owner]
            return [], []
        functions = [one for one in self._source.functions.get(origin, []) if one.owner is None]
        return functions, self._source.classes.get(origin, [])

    # --- what cannot be followed

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._container(node, node.elts)

    def visit_List(self, node: ast.List) -> None:
        self._container(node, node.elts)

    def visit_Set(self, node: ast.Set) -> None:
        self._container(node, node.elts)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._container(node, node.values)

    def _container(self, node: ast.expr, values: list[ast.expr]) -> None:
        held = [value for value in values if self._is_args(value)]
        if id(node) not in self._followed and not isinstance(context_of(node), ast.Store):
            for value in held:
                self._lost(value, "is put into a container, where it is not followed")
        self.generic_visit(node)

    def visit_Yield(self, node: ast.Yield) -> None:
        if self._is_args(node.value):
            self._lost(node, "is yielded, where it is not followed")
        self.generic_visit(node)

    def _lost(self, node: ast.AST, why: str) -> None:
        self._unreadable.add(Unreadable(self._place(node), why))

    def _place(self, node: ast.AST) -> Place:
        line = node.lineno if isinstance(node, ast.expr | ast.stmt) else 0
        return Place(self._module.file, line)


def context_of(node: ast.expr) -> ast.expr_context | None:
    """Whether a tuple or list is stored to or loaded; None for what has no such thing."""
    return node.ctx if isinstance(node, ast.Tuple | ast.List) else None


def _gives(method: Scope | None) -> bool:
    """Whether this is a property whose value is an args object."""
    return method is not None and method.gives_args and method.decorated("property", "cached_property")
