"""The verifier of a lease: all its lanes at the same time, in one event loop; the cells of a lane a few at a time.

It ends by itself: when everything is done, when a cell stalls, when the lease's time is over, or at the first SIGTERM
or SIGINT. In each case every planned sample has its terminal record and every ledger its trailer. The exit code that
it returns is evidence only; the verdict is made from plan and ledger.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from runner.agents.session import ENGINE
from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.base.terms import ExitCode, Lane
from runner.lane.cell import CellRun, Refusal, StopRecord, stop_error, stop_infra
from runner.lane.instances import Instances
from runner.oracle.measure import Measure
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.plan.workers import Worker, alone
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
    workers: Mapping[str, Sequence[Worker]] | None = None,
) -> ExitCode:
    """Drive the applicable cells of `family` and write ledgers and sessions below `artifacts_dir` (the run's own).

    `urls` maps the Compose services (`session-v1`, `session-v2`) to base URLs; with `engine` among them the checks
    that ask the engine are made as well. `models_dir` replaces the plan's
    tokenizer directory where the verifier sees it at another place. `preflight` is awaited with the base URLs that
    will be driven; an InfrastructureError of it becomes every sample's record. `workers` are the session servers of a
    lease that has several per service; they replace what `urls` says of that service.

    Raises ConfigurationError when the plan has no such lease, a service has no URL, or fewer workers than samples were
    planned for; nothing was written then.
    """
    lease = _lease(plan, family)
    cells = [cell for cell in plan.cells_of(family) if cell.applicable]
    engine_url = urls.get(ENGINE)
    servers = {**alone({name: url for name, url in urls.items() if name != ENGINE}), **(workers or {})}
    missing = sorted({cell.lane.service for cell in cells} - set(servers))
    if missing:
        raise ConfigurationError([f"no URL for the service {name}, which a planned lane needs" for name in missing])
    _enough(cells, servers)
    instances = Instances()
    runs = [
        CellRun(
            plan,
            lease,
            cell,
            workers=servers,
            instances=instances,
            engine_url=engine_url,
            artifacts=artifacts_dir,
            emit=emit,
        )
        for cell in cells
    ]
    gates = {lane: asyncio.Semaphore(CELLS_AT_ONCE) for lane in Lane}
    code = ExitCode.OK
    bases = sorted({worker.url for cell in cells for worker in servers[cell.lane.service]})
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


def _enough(cells: Sequence[PlannedCell], servers: Mapping[str, Sequence[Worker]]) -> None:
    problems = []
    for cell in cells:
        planned = 1 + max((sample.worker for sample in cell.samples), default=0)
        known = len(servers[cell.lane.service])
        if planned > known:
            problems.append(f"{cell.id} is planned for {planned} workers of {cell.lane.service}, and {known} is known")
    if problems:
        raise ConfigurationError(problems)


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
