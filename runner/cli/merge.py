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
from runner.plan.model import Plan
from runner.report.write import write_plan, write_reports
from runner.verdict.artifacts import SHARDS, load_plan, load_run, load_shards
from runner.verdict.merge import conflicts


def merge(out: Path, runs: Sequence[Path]) -> ExitCode:
    """Copy the runs into `out`, write the reports of all of them together and return the exit code of the verdict.

    Raises:
        ConfigurationError: the runs are not shards of one plan, or `out` is in use; every problem is named, and
            nothing was written.
    """
    plans = _checked(out, runs)
    for run, plan in zip(runs, plans, strict=True):
        shutil.copytree(run, out / SHARDS / plan.shard.replace("/", "-of-"))
    plan, verdict = load_run(out)
    write_plan(out, plan)
    write_reports(plan, verdict, out, load_settings())
    return verdict.exit_code


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
