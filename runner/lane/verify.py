"""The verifier of a lease: all its lanes at the same time, in one event loop; the cells of a lane a few at a time.

It ends by itself: when everything is done, when a cell stalls, when the lease's time is over, or at the first SIGTERM
or SIGINT. In each case every planned sample has its terminal record and every ledger its trailer. The exit code that
it returns is evidence only; the verdict is made from plan and ledger.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from runner.agents.session import ENGINE
from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.base.terms import ExitCode, Lane
from runner.lane.cell import CellRun, Refusal, StopRecord, stop_error, stop_infra
from runner.oracle.measure import Measure
from runner.plan.model import Plan, PlannedLease
from runner.verdict.models import keep_models

CELLS_AT_ONCE = 2
"""Cells of one lane that are driven at the same time, in plan order."""


async def verify(
    plan: Plan,
    family: str,
    artifacts_dir: Path,
    urls: Mapping[str, str],
    emit: Emit,
    models_dir: Path | None = None,
    preflight: Callable[[list[str]], Awaitable[None]] | None = None,
) -> ExitCode:
    """Drive the applicable cells of `family` and write ledgers and sessions below `artifacts_dir` (the run's own).

    `urls` maps the Compose services (`session-v1`, `session-v2`) to base URLs; with `engine` among them the checks
    that ask the engine are made as well. `models_dir` replaces the plan's
    tokenizer directory where the verifier sees it at another place. `preflight` is awaited with the base URLs that
    will be driven; an InfrastructureError of it becomes every sample's record.

    Raises ConfigurationError when the plan has no such lease or a service has no URL; nothing was written then.
    """
    lease = _lease(plan, family)
    cells = [cell for cell in plan.cells_of(family) if cell.applicable]
    missing = sorted({cell.lane.service for cell in cells} - set(urls))
    if missing:
        raise ConfigurationError([f"no URL for the service {name}, which a planned lane needs" for name in missing])
    runs = [CellRun(plan, lease, cell, urls=urls, artifacts=artifacts_dir, emit=emit) for cell in cells]
    gates = {lane: asyncio.Semaphore(CELLS_AT_ONCE) for lane in Lane}
    code = ExitCode.OK
    bases = sorted({urls[cell.lane.service] for cell in cells})
    proof = asyncio.create_task(_ground(models_dir or Path(lease.tokenizer), lease, artifacts_dir, bases, preflight))

    def stop(why: ExitCode, record: StopRecord, note: str) -> None:
        nonlocal code
        code = max(code, why)
        emit(NoteEvent(message=note, level="warning"))
        proof.cancel()
        for run in runs:
            run.stop(why, record)

    def interrupted(number: signal.Signals) -> None:
        stop(ExitCode.INTERRUPTED, stop_infra("runner", "interrupted"), f"interrupted by {number.name}; ending")

    def overdue() -> None:
        what = f"the lease's {plan.timeout:g} s are over"
        stop(ExitCode.VERIFICATION_FAILED, stop_error("timeout", what), what)

    async def in_turn(run: CellRun, ground: Measure | Refusal) -> ExitCode:
        async with gates[run.cell.lane]:
            return await run.run(ground)

    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, interrupted, number)
    timer: asyncio.TimerHandle | None = None
    try:
        await asyncio.wait([proof])
        timer = loop.call_later(plan.timeout, overdue)
        ground = Refusal("runner", InfrastructureError("interrupted")) if proof.cancelled() else proof.result()
        codes = await asyncio.gather(*(in_turn(run, ground) for run in runs))
    finally:
        if timer is not None:
            timer.cancel()
        for number in numbers:
            loop.remove_signal_handler(number)
    return max([code, *codes])


def _lease(plan: Plan, family: str) -> PlannedLease:
    for lease in plan.leases:
        if lease.family == family:
            return lease
    known = ", ".join(lease.family for lease in plan.leases) or "none"
    raise ConfigurationError([f"the plan has no lease for family {family!r}; it has {known}"])


async def _ground(
    directory: Path,
    lease: PlannedLease,
    artifacts: Path,
    bases: list[str],
    preflight: Callable[[list[str]], Awaitable[None]] | None,
) -> Measure | Refusal:
    """What every sample stands on: tokenizer and template, and an environment that was proven to generate.

    Tokenizer and template are kept among the artifacts, so that the run can be judged again.
    """
    try:
        measure = Measure.load(directory, lease.tito_model)
    except InfrastructureError as error:
        return Refusal("models", error)
    keep_models(directory, artifacts, lease.family)
    try:
        if preflight is not None:
            await preflight(bases)
    except InfrastructureError as error:
        return Refusal(ENGINE, error)
    return measure
