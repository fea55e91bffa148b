"""One sample: a session is opened, driven, read back, judged and closed.

Whatever happens is written to the ledger before anything else can get in the way, and only then raised again. The
session is closed on every end; a failure to close it is a note, because by then the sample has been judged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from runner.agents.records import Health, SessionView, read
from runner.agents.scenarios.drives import drive_of
from runner.agents.scenarios.scene import Scene
from runner.agents.transcript import Transcript
from runner.agents.turns import Attempt, DriveSettings
from runner.base.errors import InfrastructureError, RunnerError
from runner.base.events import Emit, NoteEvent, SampleDone
from runner.lane.live import LiveChecks
from runner.lane.seat import Seat
from runner.lane.snapshot import SessionFile, session_path
from runner.ledger.records import AttemptRecord, Body, NoteRecord
from runner.ledger.sample import sample_record
from runner.ledger.writer import failure_record
from runner.oracle.finding import Severity
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.plan.model import PlannedCell, PlannedSample

CLOSE_SECONDS = 3.0
"""Bound for reading evidence after a failure and for closing a session."""

Write = Callable[[Body], None]


class SampleRun:
    """One planned sample. `write` appends to the cell's ledger; `transcript` shows how far it has come.

    `seat` is where it is driven; that the same server still answers there is seen before and after. `live` are the
    checks that ask the engine afterwards, for the samples that have them.
    """

    def __init__(
        self,
        cell: PlannedCell,
        sample: PlannedSample,
        *,
        run_id: str,
        model: str,
        artifacts: Path,
        measure: Measure,
        seat: Seat,
        health: Health,
        write: Write,
        emit: Emit,
        live: LiveChecks | None = None,
    ) -> None:
        self.cell = cell
        self.sample = sample
        self.transcript = Transcript(wire=cell.lane.wire, stream=sample.stream, seed=sample.seed)
        self.hard = 0
        self._run_id = run_id
        self._model = model
        self._artifacts = artifacts
        self._measure = measure
        self._seat = seat
        self._client = seat.client
        self._health = health
        self._write = write
        self._emit = emit
        self._live = live
        self._raw: bytes | None = None

    async def run(self) -> None:
        """Drive and judge. Raises what ended the sample early, after its terminal record was written."""
        started = time.monotonic()
        try:
            try:
                view = await self._drive()
                findings = judge(view, self.transcript, self.cell, self._measure)
                if self._live is not None:
                    findings += await self._live.check(view, self.transcript, self.cell)
                self._save()
                record = sample_record(
                    view,
                    self.transcript,
                    findings,
                    sample_index=self.sample.index,
                    seconds=time.monotonic() - started,
                    worker=self.sample.worker,
                    instance_id=self._health.session_server_instance_id,
                )
            except Exception as error:
                self._failed(error)
                raise
            self.hard = record.hard_mismatch_count
            self._write(record)
            first = next((finding for finding in findings if finding.severity is Severity.HARD), None)
            self._done(ok=first is None, message=first.message if first else "")
        finally:
            await self._close()

    async def _drive(self) -> SessionView:
        drive = drive_of(self.cell.scenario, self.cell.lane.wire)
        await self._seat.health()
        self.transcript.session_id = await self._client.create()
        await drive(
            Scene(
                client=self._client,
                health=self._health,
                settings=DriveSettings.of(self.cell, self.sample, self._model),
                transcript=self.transcript,
                emit=self._emit,
                on_attempt=self._attempt,
                peers=self._seat.peers,
            )
        )
        self._raw = await self._client.get(self.transcript.session_id)
        await self._seat.health()
        return read(SessionView, self._raw, "records", "GET /sessions/{id}")

    def _attempt(self, attempt: Attempt) -> None:
        self._write(
            AttemptRecord(
                sample_index=self.sample.index,
                turn=attempt.turn,
                attempt=attempt.attempt,
                cause=attempt.cause,
                seed=attempt.seed,
                finish_reason=attempt.finish_reason,
            )
        )

    def _failed(self, error: Exception) -> None:
        events = self.transcript.driver_events
        stage = self._client.service if isinstance(error, InfrastructureError) else "driver"
        self._write(failure_record(error, stage=stage, sample_index=self.sample.index, driver_events=events))
        self._done(ok=False, message=str(error) if isinstance(error, RunnerError) else repr(error))

    def _done(self, ok: bool, message: str) -> None:
        turns = len(self.transcript.turns)
        self._emit(
            SampleDone(cell=str(self.cell.id), sample=self.sample.index, ok=ok, turns=turns, message=message[:1000])
        )

    def _save(self) -> None:
        try:
            snapshot = orjson.loads(self._raw) if self._raw is not None else None
        except orjson.JSONDecodeError:
            snapshot = self._raw.decode("utf-8", "replace") if self._raw is not None else None
        SessionFile(
            run=self._run_id,
            cell=str(self.cell.id),
            sample_index=self.sample.index,
            transcript=self.transcript,
            snapshot=snapshot,
        ).save(session_path(self._artifacts, self.cell.id, self.sample.index))

    async def _close(self) -> None:
        """Keep the evidence of a sample that broke off, and close the session. Never raises for either."""
        if not self.transcript.session_id:
            return
        problems: list[str] = []
        if self._raw is None:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    self._raw = await self._client.get(self.transcript.session_id)
            except (RunnerError, TimeoutError) as error:
                problems.append(f"no snapshot of the session could be had: {error}")
            self._save()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._client.delete(self.transcript.session_id)
        except (RunnerError, TimeoutError) as error:
            problems.append(f"the session could not be closed: {error or type(error).__name__}")
        for problem in problems:
            message = f"{self.cell.id} sample {self.sample.index}: {problem}"
            self._write(NoteRecord(message=message))
            self._emit(NoteEvent(message=message, level="warning"))
