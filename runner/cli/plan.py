"""`plan`: what would run, before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from runner.base.terms import ExitCode
from runner.cli.variables import apply
from runner.plan.build import new_run_id, prepare_plan


def show(variables: Sequence[str]) -> ExitCode:
    """Print the plan as JSON."""
    apply(variables)
    now = datetime.now(UTC)
    _, _, plan = prepare_plan(run_id=new_run_id(now), now=now, versions={})
    print(plan.model_dump_json(indent=2))
    return ExitCode.OK
