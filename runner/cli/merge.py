"""`merge`: one verdict of the artifacts of many shards, each of which ran on a machine of its own.

The artifacts are copied, so that the merged directory is whole in itself: `gate` and `replay` work on it as on any run.
Everything is found good before the first byte is copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings
from runner.base.terms import ExitCode
from runner.cli.place import writable, writing
from runner.plan.model import Plan
from runner.report.closing import print_closing
from runner.report.write import report_to_github, write_files, write_plan
from runner.verdict.artifacts import SHARDS, load_plan, load_run, load_shards
from runner.verdict.merge import conflicts


def merge(out: Path, runs: Sequence[Path]) -> ExitCode:
    """Copy the runs into `out`, write the reports of all of them together and return the exit code of the verdict.

    Raises:
        ConfigurationError: the runs are not shards of one plan, or `out` is in use; every problem is named, and
            nothing was written. Or `out` cannot be written.
    """
    settings = load_settings()
    plans = _checked(out, runs)
    writable("OUT", out)
    _copy(out / SHARDS, runs, plans)
    plan, verdict = load_run(out)
    with writing("OUT", out):
        write_plan(out, plan)
        write_files(plan, verdict, out)
    report_to_github(verdict, step_summary=settings.github_step_summary, annotate=settings.github_actions)
    print_closing(verdict, out)
    return verdict.exit_code


def _copy(target: Path, runs: Sequence[Path], plans: Sequence[Plan]) -> None:
    """Copy every run, or nothing: what was copied until an error is removed, so that the same line can be tried again.

    Raises ConfigurationError that names the run and its first file that could not be copied.
    """
    for run, plan in zip(runs, plans, strict=True):
        try:
            shutil.copytree(run, target / plan.shard.replace("/", "-of-"))
        except OSError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise ConfigurationError([f"{run} cannot be copied below {target}: {_first(error)}"]) from error


def _first(error: OSError) -> str:
    """What was wrong with the first file: copytree goes on and gathers everything that it could not copy."""
    gathered = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(gathered[0][2]) if isinstance(gathered, list) and gathered else str(error)


def _checked(out: Path, runs: Sequence[Path]) -> list[Plan]:
    problems = []
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        problems.append(f"{out} is there already and not an empty directory; name a new one")
    plans = []
    for run in runs:
        if out.resolve().is_relative_to(run.resolve()):
            problems.append(f"{out} lies within {run}, which is to be copied into it")
        if load_shards(run):
            problems.append(f"{run} is a merged run; give the shards themselves")
            continue
        try:
            plans.append(load_plan(run))
        except ConfigurationError as error:
            problems += error.problems
    if plans or not runs:
        problems += conflicts(plans)
    if problems:
        raise ConfigurationError(problems)
    return plans
