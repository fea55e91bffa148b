"""`repro`: one recorded cell again, with everything that it had, as a run of its own.

What the artifacts say is all that counts. A cell whose servers already ran is driven against the same URLs, without
Docker; else the lease is started again from the recorded images.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path

from runner import __version__
from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings
from runner.base.settings import Settings
from runner.base.terms import ExitCode
from runner.cli.job import conduct
from runner.cli.record import plan_again, recorded_cell
from runner.cli.running import verify_running
from runner.plan.build import new_run_id

_FREE = {"artifacts", "cell", "ci", "on_infra", "github_actions", "github_step_summary", "hf_home"}
"""Variables that say nothing about what is driven."""


def repro(directory: Path, cell: str) -> ExitCode:
    """Run `cell` of the run in `directory` again; returns the exit code of the new verdict.

    Raises:
        ConfigurationError: the record is not complete, or a variable contradicts it.
        InfrastructureError: no Docker engine, or one of the recorded images is not there.
    """
    recorded, lease, planned = recorded_cell(directory, cell)
    settings = load_settings()
    _refuse_changes(settings)
    now = datetime.now(UTC)
    versions = {"tito-e2e": __version__, "python": platform.python_version()}
    plan = plan_again(recorded, lease, planned, run_id=new_run_id(now), now=now, versions=versions)
    if lease.urls:
        return conduct(settings, plan, verify_running)
    from runner.cli.repeat import repeat

    return repeat(directory, cell, settings, plan)


def _refuse_changes(settings: Settings) -> None:
    changed = sorted(settings.model_fields_set - _FREE)
    if changed:
        raise ConfigurationError(
            [f"{name.upper()} is fixed by the recorded run; unset it, or use `make e2e`" for name in changed]
        )
