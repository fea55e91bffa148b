"""`contract`: checks of code that is not ours, made before a container starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.base.errors import ConfigurationError
from runner.base.terms import ExitCode

group = typer.Typer(
    name="contract",
    help="Check contracts with code that is not ours: a server's args, SGLang's conversion.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_CONSTRUCTOR = "SessionServerArgs"


@group.command()
def args(
    source: Annotated[Path, typer.Option(help="Directory of the server's package (or one file); it is only read.")],
    constructor: Annotated[
        str | None,
        typer.Option(help="FILE:NAME of another class or function that makes the args.", metavar="FILE:NAME"),
    ] = None,
    name: Annotated[list[str] | None, typer.Option(help="Parameter names by which args enter the source.")] = None,
    partial: Annotated[
        bool, typer.Option(help="Uses of args that cannot be followed are shown and do not fail.")
    ] = False,
) -> None:
    """List every field that a session server reads off its args, and compare with the one constructor."""
    raise typer.Exit(check_args(source, constructor=constructor, names=tuple(name or ["args"]), partial=partial))


def check_args(source: Path, *, constructor: str | None, names: tuple[str, ...], partial: bool) -> ExitCode:
    """Print what is read and every problem. 1 where the constructor and the source do not agree."""
    from runner.contract import arguments
    from runner.contract.compare import compare, read_constructor
    from runner.contract.flow import scan
    from runner.contract.source import read_source
    from runner.contract.text import comparison_lines

    path, owner = Path(arguments.__file__), _CONSTRUCTOR
    if constructor is not None:
        before, colon, owner = constructor.rpartition(":")
        if not (colon and before and owner):
            raise ConfigurationError([f"--constructor {constructor!r} is not FILE:NAME"])
        path = Path(before)
    found = scan(read_source(source), names)
    outcome = compare(found, read_constructor(path, owner), partial=partial)
    print("\n".join(comparison_lines(outcome, found, source, owner)))
    return ExitCode.VERIFICATION_FAILED if outcome.problems else ExitCode.OK
