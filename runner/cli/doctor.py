"""`doctor`: what is missing on this machine, and the line that mends it."""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.reading import load_settings
from runner.base.terms import ExitCode
from runner.cli.stacks import ROOT
from runner.cli.variables import apply
from runner.ground.doctor import Status, diagnose, to_lines, worst
from runner.ground.site import Site


def doctor(variables: Sequence[str]) -> ExitCode:
    """Print every check. 3 where one is in the way of a run, else 0."""
    apply(variables)
    settings = load_settings()
    gpus = tuple(str(index) for index in settings.gpus)
    checks = diagnose(Site.here(ROOT, base_image=settings.base_image, engine=settings.engine, gpus=gpus))
    print("\n".join(to_lines(checks)))
    return ExitCode.INFRASTRUCTURE if worst(checks) is Status.FAIL else ExitCode.OK
