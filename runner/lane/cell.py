"""One cell: its samples, a few at a time, its ledger, and the watch that ends it when nothing advances.

Every planned sample gets exactly one terminal record here, also when the cell is stopped: the records of unfinished
samples are written the moment the stop is decided, before any clean-up that could be cut short.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from runner.agents.records import Health
from runner.agents.session import SessionClient
from runner.base.errors import InfrastructureError
from runner.base.events import CellDone, CellStarted, Emit, Event, RetryEvent, SampleDone, TurnDone
from runner.base.terms import ExitCode
from runner.lane.instances import Instances
from runner.lane.live import LiveChecks
from runner.lane.sample import SampleRun
from runner.lane.seat import Seat
from runner.lane.silence import why_silent
from runner.ledger.paths import cell_ledger
from runner.ledger.records import (
    Body,
    ErrorBody,
    InfraRecord,
    SampleRecord,
    VerificationErrorRecord,
)
from runner.ledger.writer import LedgerError, LedgerWriter, failure_record
from runner.oracle.measure import Measure
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.plan.workers import Worker

CONCURRENCY = 4
"""Samples of one cell that are driven at the same time."""
CONNECT_SECONDS = 10.0
LIVE_SAMPLES = 1
"""Samples of a cell that the engine is asked about afterwards."""

Terminal = SampleRecord | VerificationErrorRecord | InfraRecord
StopRecord = Callable[[int, str], Terminal]
"""Makes the terminal record of an unfinished sample, from its index and a text that says where it stood."""


@dataclass(frozen=True)
class Refusal:
    """Why no sample of a lease can begin; `service` is where to look."""

    service: str
    error: InfrastructureError


class CellRun:
    """One cell of a lease.

    `workers` are the session servers by service, those of the cell's own among them; `engine_url` is where the engine
    answers, if known. `instances` remembers, for all cells of the lease, which server called itself what.
    """

    def __init__(
        self,
        plan: Plan,
        lease: PlannedLease,
        cell: PlannedCell,
        *,
        workers: Mapping[str, Sequence[Worker]],
        instances: Instances,
        engine_url: str | None,
        artifacts: Path,
        emit: Emit,
    ) -> None:
        self.cell = cell
        self._plan = plan
        self._lease = lease
        self._workers = workers
        self._instances = instances
        self._engine_url = engine_url
        self._artifacts = artifacts
        self._forward = emit
        self._finished: set[int] = set()
        self._runs: dict[int, SampleRun] = {}
        self._seats: dict[int, Seat] = {}
        self._tasks: Sequence[asyncio.Task[None] | asyncio.Task[Health]] = []
        self._ledger: LedgerWriter | None = None
        self._advanced = asyncio.Event()
        self._stopped = False
        self._early_stop: tuple[ExitCode, StopRecord] | None = None
        self._code = ExitCode.OK

    async def run(self, ground: Measure | Refusal) -> ExitCode:
        """Drive all samples; what the exit code of the process should say about this cell is returned.

        `ground` is what to measure with, or the reason why no sample can begin: then every sample ends with that.
        """
        started = time.monotonic()
        path = cell_ledger(self._artifacts, self.cell.id)
        with LedgerWriter(path, run=self._plan.run_id, cell=str(self.cell.id), writer="runner") as ledger:
            self._ledger = ledger
            self._emit(CellStarted(cell=str(self.cell.id), samples=len(self.cell.samples)))
            async with AsyncExitStack() as stack:
                live = None
                if self._engine_url is not None and isinstance(ground, Measure):
                    engine = await stack.enter_async_context(_http(self._engine_url))
                    live = LiveChecks(engine, self._lease.engine, ground)
                self._seats = {
                    index: await self._seat(index, stack)
                    for index in sorted({sample.worker for sample in self.cell.samples})
                }
                await self._begin(ground, live)
        self._emit(CellDone(cell=str(self.cell.id), seconds=time.monotonic() - started))
        return self._code

    def stop(self, code: ExitCode, record: StopRecord) -> None:
        """End the cell: unfinished samples get their record at once, then their tasks are cancelled."""
        if self._ledger is None:
            self._early_stop = (code, record)  # it has no ledger yet; `run` comes back to it
            return
        if self._stopped:
            return
        self._stopped = True
        self._code = max(self._code, code)
        for sample in self.cell.samples:
            if sample.index not in self._finished:
                terminal = record(sample.index, self._standing(sample.index))
                self._write(sample.index, terminal)
                message = terminal.message if isinstance(terminal, InfraRecord) else _message(terminal)
                turns = len(self._runs[sample.index].transcript.turns) if sample.index in self._runs else 0
                self._emit(
                    SampleDone(cell=str(self.cell.id), sample=sample.index, ok=False, turns=turns, message=message)
                )
        for task in self._tasks:
            task.cancel()

    async def _seat(self, index: int, stack: AsyncExitStack) -> Seat:
        service = self.cell.lane.service
        peers = {}
        for name, workers in self._workers.items():
            worker = workers[index % len(workers)]
            peers[name] = SessionClient(await stack.enter_async_context(_http(worker.url)), worker.name)
        worker = self._workers[service][index]
        return Seat(worker, peers[service], peers, partial(self._instances.check, service, worker))

    async def _begin(self, ground: Measure | Refusal, live: LiveChecks | None) -> None:
        if self._early_stop is not None:
            self.stop(*self._early_stop)
        if self._stopped:
            return
        if isinstance(ground, Refusal):
            self._refuse(ground.error, ground.service)
            return
        probes = {index: asyncio.create_task(seat.health()) for index, seat in self._seats.items()}
        self._tasks = list(probes.values())
        try:
            healths = {index: await probe for index, probe in probes.items()}
        except asyncio.CancelledError:
            if len(self._finished) < len(self.cell.samples):
                raise  # not stopped by this cell, which would have written every record
            return
        except Exception as error:
            self._refuse(error, self.cell.lane.service)
            return
        finally:
            for probe in probes.values():
                probe.cancel()
            await asyncio.gather(*probes.values(), return_exceptions=True)
        await self._drive(healths, ground, live)

    async def _drive(self, healths: Mapping[int, Health], measure: Measure, live: LiveChecks | None) -> None:
        gate = asyncio.Semaphore(CONCURRENCY)

        async def one(run: SampleRun) -> None:
            async with gate:
                await run.run()

        for sample in self.cell.samples:
            self._runs[sample.index] = SampleRun(
                self.cell,
                sample,
                run_id=self._plan.run_id,
                model=self._lease.model,
                artifacts=self._artifacts,
                measure=measure,
                seat=self._seats[sample.worker],
                health=healths[sample.worker],
                write=partial(self._write, sample.index),
                emit=self._emit,
                live=live if len(self._runs) < LIVE_SAMPLES else None,
            )
        self._tasks = [asyncio.create_task(one(run)) for run in self._runs.values()]
        watch = asyncio.create_task(self._watch())
        try:
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            watch.cancel()
        for result in results:
            if isinstance(result, LedgerError):
                raise result  # nothing more can be written down, not even that
            if isinstance(result, Exception):
                self._code = max(self._code, _code(result))
        if any(run.hard for run in self._runs.values()):
            self._code = max(self._code, ExitCode.VERIFICATION_FAILED)

    async def _watch(self) -> None:
        """Stop the cell when nothing has advanced for the plan's stall timeout, and say what is silent."""
        limit = self._plan.stall_timeout
        while True:
            self._advanced.clear()
            try:
                async with asyncio.timeout(limit):
                    await self._advanced.wait()
            except TimeoutError:
                what = f"nothing advanced for {limit:g} s"
                broken = await why_silent([seat.client for seat in self._seats.values()])
                if self._advanced.is_set():
                    continue
                if broken is None:
                    self.stop(ExitCode.VERIFICATION_FAILED, stop_error("stall", what))
                else:
                    self.stop(ExitCode.INFRASTRUCTURE, stop_infra(broken.service, f"{what}: {broken.message}"))
                return

    def _emit(self, event: Event) -> None:
        if isinstance(event, TurnDone | RetryEvent | SampleDone):
            self._advanced.set()
        self._forward(event)

    def _write(self, index: int, record: Body) -> None:
        """Append; a second terminal record of a sample (one that ended while it was stopped) is left out."""
        if isinstance(record, Terminal):
            if index in self._finished:
                return
            self._finished.add(index)
        if self._ledger is not None:
            self._ledger.write(record)

    def _refuse(self, error: Exception, service: str) -> None:
        """No sample can begin: each ends with this error."""
        self._code = max(self._code, _code(error))
        for sample in self.cell.samples:
            stage = service if isinstance(error, InfrastructureError) else "driver"
            terminal = failure_record(error, stage=stage, sample_index=sample.index)
            if sample.index not in self._finished:
                self._write(sample.index, terminal)
                self._emit(
                    SampleDone(
                        cell=str(self.cell.id), sample=sample.index, ok=False, turns=0, message=str(error)[:1000]
                    )
                )

    def _standing(self, index: int) -> str:
        run = self._runs.get(index)
        if run is None or not run.transcript.session_id:
            return f"sample {index} had not begun"
        done = len(run.transcript.turns)
        return (
            f"sample {index} was waiting for the reply to turn {done + 1} of session {run.transcript.session_id} "
            f"at {self._seats[run.sample.worker].worker.name}"
        )


def _http(url: str) -> httpx.AsyncClient:
    """A client without a time-out of its own: each exchange has its bound."""
    return httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS), trust_env=False)


def stop_error(stage: str, what: str) -> StopRecord:
    """Unfinished samples end with a verification error of this stage."""

    def record(index: int, standing: str) -> Terminal:
        body = ErrorBody(stage=stage, type=f"{stage.capitalize()}Error", message=f"{what}; {standing}")
        return VerificationErrorRecord(sample_index=index, verification_error=body)

    return record


def stop_infra(service: str, what: str) -> StopRecord:
    """Unfinished samples end with an infra record."""

    def record(index: int, standing: str) -> Terminal:
        return InfraRecord(sample_index=index, service=service, message=f"{what}; {standing}")

    return record


def _message(record: SampleRecord | VerificationErrorRecord) -> str:
    return record.verification_error.message if isinstance(record, VerificationErrorRecord) else ""


def _code(error: Exception) -> ExitCode:
    infrastructure = isinstance(error, InfrastructureError | OSError) and not isinstance(error, TimeoutError)
    return ExitCode.INFRASTRUCTURE if infrastructure else ExitCode.VERIFICATION_FAILED
