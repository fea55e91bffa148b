"""`verify`: what the runner container does. Events are JSON lines on stdout; the host shows them live."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from runner.base.events import Event, NoteEvent, to_line
from runner.base.terms import CANNOT_WRITE
from runner.cli.preflight import preflight
from runner.lane.verify import verify as drive
from runner.plan.workers import WORKERS_NAME, read_workers
from runner.verdict.artifacts import load_plan


def emit(event: Event) -> None:
    """One event, one line; flushed, because the host shows it live."""
    print(to_line(event), flush=True)


def verify(plan_path: Path, family: str, artifacts: Path, urls: Mapping[str, str]) -> int:
    """Drive the lease of `family` and write its evidence below `artifacts`.

    Returns what the process should end with, `CANNOT_WRITE` where the evidence cannot be written.

    Where the session servers are is told by a file beside the plan; `urls` hold where there is none.
    """
    plan = load_plan(plan_path.parent)
    lease = next((lease for lease in plan.leases if lease.family == family), None)
    before = preflight(lease, artifacts, urls, emit) if lease is not None else None
    told = read_workers(plan_path.with_name(WORKERS_NAME))
    workers = told.services if told is not None else None
    try:
        return asyncio.run(drive(plan, family, artifacts, urls, emit, preflight=before, workers=workers))
    except OSError as error:
        emit(NoteEvent(level="error", message=f"the evidence cannot be written: {error}"))
        return CANNOT_WRITE
