"""A lease is verified over HTTP: what is in the ledger, whatever happens to its samples."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from runner.base.errors import ConfigurationError, IncompleteError, InfrastructureError
from runner.base.events import CellDone, CellStarted, Event, NoteEvent, SampleDone, TurnDone
from runner.base.settings import EngineKind
from runner.base.terms import ExitCode, Lane
from runner.lane.snapshot import SessionFile, session_path
from runner.lane.verify import verify
from runner.ledger.paths import cell_ledger
from runner.ledger.reader import read_ledger
from runner.ledger.records import AttemptRecord, InfraRecord, NoteRecord, SampleRecord, VerificationErrorRecord
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.verdict.models import kept_models
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, SEED, planned_cell, server_app

Terminal = SampleRecord | VerificationErrorRecord | InfraRecord


def planned(cells: Sequence[PlannedCell], *, stall: float = 30.0, timeout: float = 60.0, model: Path = MODEL) -> Plan:
    lease = PlannedLease(
        family="qwen3",
        model="/models/qwen3",
        tokenizer=str(model),
        tito_model="qwen3",
        reasoning_parser="qwen3",
        tool_call_parser="qwen25",
        context_length=8192,
        engine=EngineKind.CPU,
        ready_timeout=60,
    )
    return Plan(
        run_id="20260101-000000-abc123",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        seed=SEED,
        stall_timeout=stall,
        timeout=timeout,
        leases=[lease],
        cells=list(cells),
    )


@dataclass
class Run:
    """What a verification left behind."""

    artifacts: Path
    plan: Plan
    code: ExitCode
    events: list[Event] = field(default_factory=list)

    def ledger(self, cell: PlannedCell) -> Any:
        ledger = read_ledger(cell_ledger(self.artifacts, cell.id))
        assert ledger.problems == [], "every ledger is whole: header, records, trailer"
        assert ledger.trailer is not None
        return ledger

    def terminals(self, cell: PlannedCell) -> list[Terminal]:
        """The terminal records, by sample; there is exactly one for each planned sample."""
        records = [record for record in self.ledger(cell).records if isinstance(record, Terminal)]
        found = sorted(records, key=lambda record: record.sample_index or 0)
        assert [record.sample_index for record in found] == [sample.index for sample in cell.samples]
        return found

    def evidence(self, cell: PlannedCell, index: int = 0) -> SessionFile:
        return SessionFile.load(session_path(self.artifacts, cell.id, index))


@contextmanager
def environment(*versions: str, faults: Sequence[Fault] = ()) -> Iterator[tuple[ScriptedEngine, dict[str, str]]]:
    """An engine and session servers on real sockets."""
    engine = ScriptedEngine(MODEL, faults)
    with ExitStack() as stack:
        engine_url = stack.enter_context(served(build_engine(engine)))
        urls = {
            f"session-{version}": stack.enter_context(served(server_app(version, engine_url))) for version in versions
        }
        yield engine, urls


def run(plan: Plan, urls: dict[str, str], artifacts: Path, on_event: Callable[[Event], object] | None = None) -> Run:
    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        if on_event is not None:
            on_event(event)

    code = asyncio.run(verify(plan, "qwen3", artifacts, urls, emit))
    return Run(artifacts, plan, code, events)


def sessions_of(url: str) -> int:
    return int(httpx.get(f"{url}/health").json()["sessions"])


def test_a_clean_cell_has_a_sample_record_for_each_sample(tmp_path: Path) -> None:
    cell = planned_cell(samples=3)
    with environment("v1") as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
        assert sessions_of(urls["session-v1"]) == 0, "every session was closed"
    assert result.code is ExitCode.OK
    for record, sample in zip(result.terminals(cell), cell.samples, strict=True):
        assert isinstance(record, SampleRecord)
        assert record.hard_mismatch_count == record.total_mismatches == 0
        assert record.findings == []
        assert {"append_tool", "rollback", "append_user", "append_system", "append_assistant"} <= set(
            record.driver_events
        )
        assert (record.turns, record.seed, record.stream) == (14, sample.seed, sample.stream)
        assert record.prompt_tokens > record.completion_tokens > 0
        assert record.instance_id == "test-v1"
        assert record.retries == {}
    assert sum(isinstance(event, TurnDone) for event in result.events) == 42
    assert [event.ok for event in result.events if isinstance(event, SampleDone)] == [True] * 3
    assert isinstance(result.events[0], CellStarted)
    assert isinstance(result.events[-1], CellDone)


def test_the_evidence_of_a_sample_is_enough_to_judge_it_again(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment("v1") as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
    path = session_path(tmp_path, cell.id, 0)
    evidence = result.evidence(cell)
    kept = kept_models(tmp_path, "qwen3")
    assert judge(evidence.view, evidence.transcript, cell, Measure.load(kept, "qwen3")) == [], "with kept files alone"
    assert evidence.run == "20260101-000000-abc123"
    assert judge(evidence.view, evidence.transcript, cell, Measure.load(MODEL, "qwen3")) == []
    body = orjson.loads(path.read_bytes())
    body["snapshot"]["records"][4]["request"]["input_ids"][30] += 1
    path.write_bytes(orjson.dumps(body))
    altered = result.evidence(cell)
    findings = judge(altered.view, altered.transcript, cell, Measure.load(MODEL, "qwen3"))
    assert [finding.diff.token_index for finding in findings if finding.diff is not None] == [30, 30]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(IncompleteError, match="no usable session evidence"):
        result.evidence(cell)


def test_retries_are_written_down_as_they_are_made(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment("v1", faults=[Fault(Kind.TRUNCATE, turn=3)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, SampleRecord)
    assert record.retries == {"length": 1}
    (attempt,) = [r for r in result.ledger(cell).records if isinstance(r, AttemptRecord)]
    assert (attempt.turn, attempt.attempt, attempt.cause, attempt.seed) == (3, 1, "length", SEED + 1_000_000)
    assert result.code is ExitCode.OK


def test_a_hard_finding_is_recorded_and_the_gate_is_left_to_decide(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment("v1", faults=[Fault(Kind.USAGE, turn=3)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, SampleRecord)
    assert record.hard_mismatch_types == ["counts:client_usage", "counts:completion_tokens"]
    assert record.hard_mismatch_count == 2
    assert record.hard_mismatch_example is not None
    assert "usage.completion_tokens" in str(record.hard_mismatch_example["detail"])
    assert [finding.turn for finding in record.findings] == [3, 3]
    assert result.code is ExitCode.VERIFICATION_FAILED
    assert [event.ok for event in result.events if isinstance(event, SampleDone)] == [False]


def test_a_failed_check_of_one_sample_leaves_the_others_alone(tmp_path: Path) -> None:
    cell = planned_cell(samples=3)
    with environment("v1", faults=[Fault(Kind.STATUS, session=2, turn=2, value=418)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
        assert sessions_of(urls["session-v1"]) == 0, "the session of a failed sample is closed as well"
    records = result.terminals(cell)
    (failed,) = [record for record in records if isinstance(record, VerificationErrorRecord)]
    assert failed.verification_error.stage == "turn"
    assert failed.verification_error.type == "VerificationError"
    assert "answered 418" in failed.verification_error.message
    assert not failed.model_incomplete
    assert sum(isinstance(record, SampleRecord) for record in records) == 2
    assert result.code is ExitCode.VERIFICATION_FAILED
    evidence = result.evidence(cell, failed.sample_index or 0)
    assert len(evidence.transcript.turns) == 1
    assert len(evidence.view.records) == 1, "the server's snapshot is kept for a sample that broke off"


def test_a_model_that_does_not_finish_is_told_apart(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment("v1", faults=[Fault(Kind.TRUNCATE, times=None)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, VerificationErrorRecord)
    assert record.model_incomplete
    assert record.verification_error.message == "turn 1: exhausted 2 retries after finish_reason='length'"
    assert sum(isinstance(r, AttemptRecord) for r in result.ledger(cell).records) == 2


def test_an_engine_that_is_gone_is_infrastructure(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with served(server_app("v1", nobody)) as url:
            result = run(planned([cell]), {"session-v1": url}, tmp_path)
    for record in result.terminals(cell):
        assert isinstance(record, InfraRecord)
        assert record.service == "engine"
        assert "backend transport error" in record.message
    assert result.code is ExitCode.INFRASTRUCTURE


def test_a_session_server_that_is_gone_is_infrastructure_for_every_sample(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = run(planned([cell]), {"session-v1": nobody}, tmp_path)
    assert {record.service for record in result.terminals(cell) if isinstance(record, InfraRecord)} == {"session-v1"}
    assert result.code is ExitCode.INFRASTRUCTURE
    assert sum(isinstance(event, SampleDone) for event in result.events) == 2


def test_a_server_that_is_no_session_server_fails_the_check(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment() as (engine, _), served(build_engine(engine)) as url:
        result = run(planned([cell]), {"session-v1": url}, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, VerificationErrorRecord)
    assert record.verification_error.stage == "health"


def test_a_missing_tokenizer_is_infrastructure(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    result = run(planned([cell], model=tmp_path / "none"), {"session-v1": "http://127.0.0.1:9"}, tmp_path)
    assert {record.service for record in result.terminals(cell) if isinstance(record, InfraRecord)} == {"models"}
    assert result.code is ExitCode.INFRASTRUCTURE


def test_a_cell_in_which_nothing_advances_is_ended(tmp_path: Path) -> None:
    cell = planned_cell(samples=6)
    with environment("v1", faults=[Fault(Kind.HANG, turn=3, times=None)]) as (_, urls):
        result = run(planned([cell], stall=1.0), urls, tmp_path)
    for record in result.terminals(cell):
        assert isinstance(record, VerificationErrorRecord)
        assert (record.verification_error.stage, record.verification_error.type) == ("stall", "StallError")
        assert record.verification_error.message.startswith("nothing advanced for 1 s; sample ")
    messages = [record.verification_error.message for record in result.terminals(cell)]  # type: ignore[union-attr]
    assert sum("waiting for the reply to turn 3" in message for message in messages) == 4
    assert sum("had not begun" in message for message in messages) == 2
    assert result.code is ExitCode.VERIFICATION_FAILED


def test_slow_progress_is_no_stall(tmp_path: Path) -> None:
    cell = planned_cell(cycles=1)
    with environment("v1", faults=[Fault(Kind.DELAY, times=None, value=0.3)]) as (_, urls):
        result = run(planned([cell], stall=1.5), urls, tmp_path)
    assert result.code is ExitCode.OK


def test_the_end_of_the_leases_time_ends_every_cell(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    with environment("v1", faults=[Fault(Kind.HANG, turn=3, times=None)]) as (_, urls):
        result = run(planned([cell], timeout=1.0), urls, tmp_path)
    for record in result.terminals(cell):
        assert isinstance(record, VerificationErrorRecord)
        assert record.verification_error.stage == "timeout"
    assert any(isinstance(event, NoteEvent) for event in result.events)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_with_records_and_trailers(tmp_path: Path, number: signal.Signals) -> None:
    cell = planned_cell(samples=6)

    def interrupt(event: Event) -> None:
        if isinstance(event, TurnDone) and event.turn == 2:
            os.kill(os.getpid(), number)

    with environment("v1", faults=[Fault(Kind.HANG, turn=3, times=None)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path, interrupt)
    for record in result.terminals(cell):
        assert isinstance(record, InfraRecord)
        assert record.service == "runner"
        assert record.message.startswith("interrupted; sample ")
    assert result.code is ExitCode.INTERRUPTED
    kept = [SessionFile.load(path) for path in session_path(tmp_path, cell.id, 0).parent.iterdir()]
    assert max(len(evidence.transcript.turns) for evidence in kept) == 2, "what there was is kept"


def test_an_interrupted_cell_keeps_the_samples_that_were_done(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)

    def interrupt(event: Event) -> None:
        if isinstance(event, SampleDone) and event.ok:
            os.kill(os.getpid(), signal.SIGTERM)

    with environment("v1", faults=[Fault(Kind.HANG, session=2, turn=3, times=None)]) as (_, urls):
        result = run(planned([cell]), urls, tmp_path, interrupt)
    assert {type(record) for record in result.terminals(cell)} == {SampleRecord, InfraRecord}


def test_cells_that_do_not_apply_leave_nothing_and_other_families_neither(tmp_path: Path) -> None:
    cell = planned_cell()
    absent = planned_cell(Lane.V2_OPENAI).model_copy(update={"applicable": False, "reason": "not built"})
    other = planned_cell().model_copy(update={"family": "other"})
    with environment("v1") as (_, urls):
        result = run(planned([cell, absent, other]), urls, tmp_path)
    assert [path.parent.parent.name for path in tmp_path.rglob("ledger.jsonl")] == ["v1-openai"]
    assert result.code is ExitCode.OK


def test_a_session_that_cannot_be_closed_is_noted_and_does_not_change_the_sample(tmp_path: Path) -> None:
    cell = planned_cell()
    app = server_app("v1", engine=ScriptedEngine(MODEL))

    async def undeletable(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            scope = {**scope, "method": "PATCH", "path": "/nowhere", "raw_path": b"/nowhere"}
        await app(scope, receive, send)  # type: ignore[operator]

    with served(undeletable) as url:
        result = run(planned([cell]), {"session-v1": url}, tmp_path)
    assert isinstance(result.terminals(cell)[0], SampleRecord)
    (note,) = [record for record in result.ledger(cell).records if isinstance(record, NoteRecord)]
    assert "could not be closed" in note.message
    assert result.code is ExitCode.OK


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    plan = planned([planned_cell()])
    with pytest.raises(ConfigurationError, match="no lease for family 'nope'; it has qwen3"):
        asyncio.run(verify(plan, "nope", tmp_path, {}, print))
    with pytest.raises(ConfigurationError, match="no URL for the service session-v1"):
        asyncio.run(verify(plan, "qwen3", tmp_path, {}, print))
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_is_written_down_with_the_stage_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = planned_cell()

    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("runner.lane.sample.judge", broken)
    with environment("v1") as (_, urls):
        result = run(planned([cell]), urls, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, VerificationErrorRecord)
    body = record.verification_error
    assert (body.stage, body.type, body.message) == ("driver", "RuntimeError", "a fault of ours")
    assert "rollback" in record.driver_events
    assert result.code is ExitCode.VERIFICATION_FAILED


def test_an_environment_that_proves_no_generation_ends_every_sample(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    plan = planned([cell])
    asked: list[list[str]] = []

    async def unready(bases: list[str]) -> None:
        asked.append(bases)
        raise InfrastructureError("proved no generation")

    urls = {"session-v1": "http://127.0.0.1:9"}
    code = asyncio.run(verify(plan, "qwen3", tmp_path, urls, print, preflight=unready))
    result = Run(tmp_path, plan, code)
    assert asked == [["http://127.0.0.1:9"]]
    assert {(r.service, r.message) for r in result.terminals(cell) if isinstance(r, InfraRecord)} == {
        ("engine", "proved no generation")
    }
    assert code is ExitCode.INFRASTRUCTURE


def test_a_signal_before_the_first_request_leaves_records_and_trailers_as_well(tmp_path: Path) -> None:
    cell = planned_cell(samples=2)
    plan = planned([cell])

    async def endless(bases: list[str]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    urls = {"session-v1": "http://127.0.0.1:9"}
    code = asyncio.run(verify(plan, "qwen3", tmp_path, urls, lambda event: None, preflight=endless))
    result = Run(tmp_path, plan, code)
    assert [r.message for r in result.terminals(cell) if isinstance(r, InfraRecord)] == [
        "interrupted; sample 0 had not begun",
        "interrupted; sample 1 had not begun",
    ]
    assert code is ExitCode.INTERRUPTED


def test_all_lanes_of_a_lease_are_driven_at_the_same_time(tmp_path: Path) -> None:
    cells = [planned_cell(lane, samples=2) for lane in Lane]
    with environment("v1", "v2") as (_, urls):
        result = run(planned(cells), urls, tmp_path)
    assert result.code is ExitCode.OK
    for cell in cells:
        records = result.terminals(cell)
        assert all(isinstance(record, SampleRecord) and record.hard_mismatch_count == 0 for record in records)
        needed = [*cell.required_events, *cell.required_once]
        assert all(isinstance(r, SampleRecord) and set(needed) <= set(r.driver_events) for r in records)
    turns = [event.cell for event in result.events if isinstance(event, TurnDone)]
    begun = max(turns.index(str(cell.id)) for cell in cells)
    ended = min(len(turns) - turns[::-1].index(str(cell.id)) for cell in cells)
    assert begun < ended, "every lane began before any of them was done"
