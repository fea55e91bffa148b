"""A server's reads against one constructor: missing, unknown, and defaulted differently.

The constructor is read from its source as well, so that each problem comes with both places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import ConfigurationError
from runner.contract.flow import Read, Scan
from runner.contract.source import Place


@dataclass(frozen=True)
class Parameter:
    """One field of the constructor. `default` is its source text, None where a value must be given."""

    name: str
    place: Place
    default: str | None


@dataclass(frozen=True)
class Field:
    """All reads of one field."""

    name: str
    reads: tuple[Read, ...]

    @property
    def required(self) -> bool:
        """Whether one of the reads fails where the field is not there."""
        return any(read.required for read in self.reads)

    @property
    def defaults(self) -> tuple[str, ...]:
        """What the server falls back to, each once."""
        return tuple(dict.fromkeys(read.default for read in self.reads if read.default is not None))


@dataclass(frozen=True)
class Comparison:
    """The outcome. `problems` is empty where the constructor gives a server exactly what it reads."""

    fields: tuple[Field, ...]
    parameters: tuple[Parameter, ...]
    problems: tuple[str, ...]


def read_constructor(path: Path, name: str) -> tuple[Parameter, ...]:
    """The fields of the class, or the parameters of the function, called `name` in the file `path`.

    Raises ConfigurationError where there is none, or where it takes whatever it is given.
    """
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigurationError([f"the constructor's file {path} cannot be read: {error}"]) from error
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return tuple(_class_fields(node, path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            if node.args.kwarg is not None:
                raise ConfigurationError(
                    [f"{path.name}:{node.lineno}: {name} takes **{node.args.kwarg.arg}, so it owns no fields"]
                )
            return tuple(_function_parameters(node, path))
    raise ConfigurationError([f"{path} defines no class and no function {name!r}"])


def _class_fields(node: ast.ClassDef, path: Path) -> Iterator[Parameter]:
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            default = None if one.value is None else ast.unparse(one.value)
            yield Parameter(one.target.id, Place(path.name, one.lineno), default)


def _function_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Iterator[Parameter]:
    positional = [*node.args.posonlyargs, *node.args.args]
    without = len(positional) - len(node.args.defaults)
    values = [*[None] * without, *node.args.defaults, *node.args.kw_defaults]
    for one, value in zip([*positional, *node.args.kwonlyargs], values, strict=True):
        yield Parameter(one.arg, Place(path.name, one.lineno), None if value is None else ast.unparse(value))


def fields(scan: Scan) -> tuple[Field, ...]:
    """The reads, grouped by field and sorted by its name."""
    names = sorted({read.field for read in scan.reads})
    return tuple(Field(name, tuple(read for read in scan.reads if read.field == name)) for name in names)


def compare(scan: Scan, parameters: tuple[Parameter, ...], *, partial: bool = False) -> Comparison:
    """Compare. With `partial`, uses that could not be followed are no problem of their own."""
    found = fields(scan)
    known = {one.name: one for one in parameters}
    problems = [] if found else [f"no field is read off args in {scan.files} files; is this the server's source?"]
    for one in found:
        places = ", ".join(str(read.place) for read in one.reads)
        if len(one.defaults) > 1:
            problems.append(f"{one.name}: the server itself disagrees about its default ({_each(one)})")
        if one.name not in known:
            kind = (
                "required, read" if one.required else f"optional, default {' / '.join(one.defaults) or 'absent'}, read"
            )
            problems.append(f"missing: {one.name} is not in the constructor ({kind} at {places})")
            continue
        given = known[one.name]
        if (
            given.default is not None
            and one.defaults
            and not all(_same(given.default, value) for value in one.defaults)
        ):
            problems.append(
                f"defaulted differently: {one.name} is {given.default} in the constructor ({given.place}), but the"
                f" server falls back to {_each(one)}"
            )
    read = {one.name for one in found}
    problems += [
        f"unknown: {one.name} of the constructor ({one.place}) is read nowhere in this source"
        for one in parameters
        if one.name not in read
    ]
    if not partial:
        problems += [f"cannot be followed: args at {one.place} {one.why}" for one in scan.unreadable]
    return Comparison(found, parameters, tuple(problems))


def _each(one: Field) -> str:
    return ", ".join(f"{read.default} at {read.place}" for read in one.reads if read.default is not None)


def _same(one: str, other: str) -> bool:
    """Whether two pieces of source mean the same value. What is no literal is compared as text."""
    try:
        first, second = ast.literal_eval(one), ast.literal_eval(other)
    except ValueError:
        return one == other
    return type(first) is type(second) and bool(first == second)
