"""`verify`: what the runner container does. Events are JSON lines on stdout; the host shows them live."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from runner.base.events import Event, to_line
from runner.base.terms import ExitCode
from runner.cli.ready import prove_ready
from runner.lane.verify import verify as drive
from runner.verdict.artifacts import load_plan


def emit(event: Event) -> None:
    """One event, one line; flushed, because the host shows it live."""
    print(to_line(event), flush=True)


def verify(plan_path: Path, family: str, artifacts: Path, urls: Mapping[str, str]) -> ExitCode:
    """Drive the lease of `family` and write its evidence below `artifacts`."""
    plan = load_plan(plan_path.parent)
    ready_timeout = next((lease.ready_timeout for lease in plan.leases if lease.family == family), 0.0)

    async def preflight(bases: list[str]) -> None:
        await asyncio.gather(*(prove_ready(base, ready_timeout, family, emit) for base in bases))

    return asyncio.run(drive(plan, family, artifacts, urls, emit, preflight=preflight))
