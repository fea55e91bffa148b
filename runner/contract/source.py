"""The Python files of a server as scopes, functions and classes: what the flow analysis looks names up in.

Only syntax is read; nothing of the server is imported or run, so a server whose packages are not installed here, or
that would start something when imported, can be checked all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.base.errors import ConfigurationError

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands: a file, relative to what was scanned, and a line counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(eq=False)
class Class:
    """One class. `held` are the attributes of its instances that hold an args object."""

    name: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    """Annotated names of the body, in order: what a generated `__init__` takes."""
    methods: dict[str, Scope] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Scope:
    """A module, a function or a lambda. `bound` are the names that belong to it; `holding` those that hold args."""

    name: str
    file: str
    node: ast.Module | FunctionNode
    outer: Scope | None = None
    owner: Class | None = None
    bound: set[str] = field(default_factory=set)
    holding: set[str] = field(default_factory=set)
    gives_args: bool = False
    """Whether a call of it returns an args object."""
    functions: dict[str, Scope] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    """Local name -> name where it comes from; of a module, and of the imports inside its functions."""

    @property
    def positional(self) -> list[str]:
        """Parameters that can be given by position, in order."""
        if isinstance(self.node, ast.Module):
            return []
        return [one.arg for one in (*self.node.args.posonlyargs, *self.node.args.args)]

    @property
    def named(self) -> list[str]:
        """Parameters that can be given by name."""
        if isinstance(self.node, ast.Module):
            return []
        return [one.arg for one in (*self.node.args.args, *self.node.args.kwonlyargs)]

    def decorated(self, *names: str) -> bool:
        """Whether the function carries one of these decorators."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        return any(last_name(one) in names for one in self.node.decorator_list)

    def home(self, name: str) -> Scope:
        """The scope that `name`, used here, belongs to; the module where none says so."""
        scope = self
        while name not in scope.bound and scope.outer is not None:
            scope = scope.outer
        return scope


@dataclass(frozen=True)
class Source:
    """All that was read. `scopes` maps the node of each function or module to its scope."""

    modules: tuple[Scope, ...]
    scopes: dict[ast.AST, Scope]
    functions: dict[str, list[Scope]]
    classes: dict[str, list[Class]]

    def family(self, start: Class) -> list[Class]:
        """The class and, by name, everything that it inherits from or that inherits from it."""
        found = [start]
        for one in found:
            bases = [base for name in one.bases for base in self.classes.get(name, [])]
            heirs = [heir for group in self.classes.values() for heir in group if one.name in heir.bases]
            found += [other for other in dict.fromkeys((*bases, *heirs)) if other not in found]
        return found


def read_source(directory: Path) -> Source:
    """Parse every Python file below `directory` (or the one file that it is).

    Raises ConfigurationError where there is none, and with every file that is not valid Python.
    """
    if not directory.exists():
        raise ConfigurationError([f"{directory}: there is no such directory; --source names the server's package"])
    root = directory if directory.is_dir() else directory.parent
    paths = sorted(directory.rglob("*.py")) if directory.is_dir() else [directory]
    if not paths:
        raise ConfigurationError([f"{directory}: no Python file is in it; --source names the server's package"])
    problems: list[str] = []
    source = Source((), {}, {}, {})
    modules = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        try:
            tree = ast.parse(path.read_bytes(), filename=name)
        except (SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            problems.append(f"{name}{line}: is not valid Python: {error}")
            continue
        modules.append(_Builder(source, Scope(name, name, tree)).build())
    if problems:
        raise ConfigurationError(problems)
    return Source(tuple(modules), source.scopes, source.functions, source.classes)


class _Builder(ast.NodeVisitor):
    """Makes the scopes of one module."""

    def __init__(self, source: Source, module: Scope) -> None:
        self._source = source
        self._module = module
        self._scope = module
        self._class: Class | None = None
        self._elsewhere: dict[Scope, set[str]] = {}

    def build(self) -> Scope:
        self._source.scopes[self._module.node] = self._module
        self.generic_visit(self._module.node)
        for scope, names in self._elsewhere.items():
            scope.bound -= names
        return self._module

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node, node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node, node.name)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, "<lambda>")

    def _function(self, node: FunctionNode, name: str) -> None:
        made = Scope(name, self._module.file, node, outer=self._scope, owner=self._class)
        given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        made.bound.update(one.arg for one in given if one is not None)
        self._source.scopes[node] = made
        if not isinstance(node, ast.Lambda):
            self._source.functions.setdefault(name, []).append(made)
            if self._class is not None:
                self._class.methods[name] = made
            else:
                self._scope.functions[name] = made
                self._scope.bound.add(name)
            for outside in (*node.decorator_list, *_defaults(node.args)):
                self.visit(outside)
        scope, owner = self._scope, self._class
        self._scope, self._class = made, None
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for inside in body:
            self.visit(inside)
        self._scope, self._class = scope, owner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        fields = [
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        made = Class(node.name, tuple(last_name(base) for base in node.bases), tuple(fields))
        self._source.classes.setdefault(node.name, []).append(made)
        self._scope.classes[node.name] = made
        self._scope.bound.add(node.name)
        outer, self._class = self._class, made
        for one in node.body:
            self.visit(one)
        self._class = outer

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store) and self._class is None:
            self._scope.bound.add(node.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._scope.bound.add(node.name)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._elsewhere.setdefault(self._scope, set()).update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._elsewhere.setdefault(self._scope, set()).update(node.names)

    def visit_Import(self, node: ast.Import) -> None:
        self._scope.bound.update((one.asname or one.name).partition(".")[0] for one in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._module.imports.update({one.asname or one.name: one.name for one in node.names})


def last_name(node: ast.expr) -> str:
    """`c` of `c` and of `a.b.c`, nothing of anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _defaults(given: ast.arguments) -> Iterator[ast.expr]:
    yield from given.defaults
    yield from (one for one in given.kw_defaults if one is not None)
