"""`contract`: checks of code that is not ours, made before a container starts."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
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
_UNSET = (
    "SGLANG_SOURCE_ROOT is not set: it names a checkout of SGLang at the pinned commit, whose own tests of the"
    " Anthropic conversion are run"
)


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


@group.command()
def sglang(
    source_root: Annotated[
        Path | None,
        typer.Option(help="A checkout of SGLang at the pinned commit.", show_default="SGLANG_SOURCE_ROOT"),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(help="Test file, relative to the checkout, instead of the two that are known; may be repeated."),
    ] = None,
    plugin: Annotated[
        list[str] | None, typer.Option(help="Module of a pytest plugin that the tests need; may be repeated.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            help="Interpreter that has pytest and SGLang's packages.",
            show_default="SGLANG_PYTHON, or the one that runs this",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for all tests together.", min=1)] = 900.0,
    accept_drift: Annotated[
        bool, typer.Option(help="Run on another commit than the pinned one; the report says so.")
    ] = False,
) -> None:
    """Run SGLang's own conversion tests from a checkout, isolated; results in artifacts/<run id>-contract."""
    code = check_sglang(
        source_root,
        files=tuple(file or ()),
        plugins=tuple(plugin or ()),
        python=python,
        timeout=timeout,
        accept_drift=accept_drift,
    )
    raise typer.Exit(code)


def check_sglang(
    source_root: Path | None,
    *,
    files: tuple[str, ...],
    python: str | None = None,
    plugins: tuple[str, ...] = (),
    timeout: float,
    accept_drift: bool,
) -> ExitCode:
    """Run the gate and write its artifacts. 1 where it failed; without a checkout 0 here and 1 in CI."""
    from runner.base.reading import load_settings
    from runner.cli.place import writable
    from runner.contract.checkout import TEST_FILES
    from runner.contract.result import write_result
    from runner.contract.sglang import Order, check, unset
    from runner.contract.text import result_lines
    from runner.plan.build import new_run_id

    settings = load_settings({"sglang_source_root": source_root, "sglang_python": python})
    run_id = new_run_id(datetime.now(UTC))
    writable("ARTIFACTS", settings.artifacts)
    directory = settings.artifacts.resolve() / f"{run_id}-contract"
    directory.mkdir(parents=True)
    order = Order(
        root=settings.sglang_source_root or Path(),
        directory=directory,
        run_id=run_id,
        interpreter=settings.sglang_python or sys.executable,
        files=files or TEST_FILES,
        plugins=plugins,
        timeout=timeout,
        accept_drift=accept_drift,
    )
    result = unset(order, _UNSET, insist=settings.ci) if settings.sglang_source_root is None else check(order)
    write_result(result, directory)
    print("\n".join(result_lines(result, directory)))
    return result.exit_code


@group.command()
def kit(
    timeout: Annotated[float, typer.Option(help="Seconds for the engine's start and all tests.", min=1)] = 900.0,
) -> None:
    """Run SGLang's own Anthropic kit live against the engine image (ENGINE_IMAGE, or the one built here)."""
    from runner.cli.gates import check_kit

    raise typer.Exit(check_kit(timeout=timeout))


@group.command()
def conversion(
    against: Annotated[
        Path | None,
        typer.Option(help="A conversion.json of another SGLang: what changed since then is named and fails."),
    ] = None,
) -> None:
    """Our Anthropic conversion against SGLang's, case by case (ENGINE_IMAGE, SESSION_IMAGE, or those built here)."""
    from runner.cli.gates import check_conversion

    raise typer.Exit(check_conversion(against=against))
