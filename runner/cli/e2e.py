"""`e2e`: the main job. Plan, ground, leases, verdict, reports - in this order, each of them in its own layer.

Nothing is started before the whole configuration has been found good. Servers that already run are verified from this
process; only where they have to be started is anything of Docker imported.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime

from runner import __version__
from runner.base.settings import EngineKind, Settings
from runner.base.terms import ExitCode
from runner.cli.job import conduct
from runner.cli.variables import apply
from runner.plan.build import new_run_id, prepare_plan
from runner.plan.model import Plan


def e2e(variables: Sequence[str]) -> ExitCode:
    """Run everything and return the exit code of the verdict."""
    apply(variables)
    return drive(*planned())


def planned() -> tuple[Settings, Plan]:
    """Settings and a new plan from the environment. Raises ConfigurationError with every problem."""
    now = datetime.now(UTC)
    versions = {"tito-e2e": __version__, "python": platform.python_version()}
    settings, _, plan = prepare_plan(run_id=new_run_id(now), now=now, versions=versions)
    return settings, plan


def drive(settings: Settings, plan: Plan) -> ExitCode:
    """Run the plan; its artifacts are in `settings.artifacts / plan.run_id` then. The verdict's exit code, or 130."""
    if settings.targets:
        from runner.cli.running import verify_running as work
    else:
        from runner.cli.leases import run_leases as work

        if settings.engine is EngineKind.GPU:
            from runner.cli.gpu import preflight

            plan = preflight(settings, plan)
    return conduct(settings, plan, work)
