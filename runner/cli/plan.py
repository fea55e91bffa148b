"""`plan`: what would run, before anything starts. A table for a person, the plan itself for a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from runner.base.terms import ExitCode
from runner.cli.variables import apply
from runner.plan.build import new_run_id, prepare_plan
from runner.report.planned import print_planned


def show(variables: Sequence[str], *, as_json: bool) -> ExitCode:
    """Print the plan: as JSON where that is asked for or where standard output is no terminal, else as a table."""
    apply(variables)
    now = datetime.now(UTC)
    _, _, plan = prepare_plan(run_id=new_run_id(now), now=now, versions={})
    if as_json or not sys.stdout.isatty():
        print(plan.model_dump_json(indent=2))
    else:
        print_planned(plan)
        print("nothing was started; --json, or into a file, gives the whole plan")
    return ExitCode.OK
