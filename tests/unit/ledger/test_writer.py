"""The writer: whole lines or none, a trailer only at a real end, and nothing that strict JSON cannot hold."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import math
import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from runner.base.errors import ConfigurationError, InfrastructureError, ModelIncompleteError, VerificationError
from runner.base.terms import CellId
from runner.ledger.paths import LEDGERS, cell_ledger, ledger_path
from runner.ledger.reader import ProblemKind, read_ledger
from runner.ledger.records import (
    InfraRecord,
    NoteRecord,
    SampleRecord,
    VerificationErrorRecord,
)
from runner.ledger.writer import LedgerError, LedgerWriter
from tests.unit.ledger.samples import sample

CELL = "qwen3/v1-openai/baseline"


def writer(path: Path) -> LedgerWriter:
    return LedgerWriter(path, run="run", cell=CELL, writer="test")


def test_a_ledger_is_header_records_and_a_trailer_that_proves_them(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.jsonl"
    with writer(path) as ledger:
        ledger.write(sample())
        ledger.write(NoteRecord(message="done"))
    lines = path.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["kind"] for line in lines] == ["header", "sample", "note", "trailer"]
    trailer = json.loads(lines[-1])
    assert trailer["records"] == 3
    assert trailer["sha256"] == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert read_ledger(path).complete


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    writer(tmp_path / "l").close()
    assert stat.S_IMODE((tmp_path / "l").stat().st_mode) == 0o600


def test_the_descriptor_appends_and_is_closed_on_exec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[int, int]] = []
    real = os.open

    def spy(path: Path, flags: int, mode: int) -> int:
        opened.append((flags, mode))
        return real(path, flags, mode)

    monkeypatch.setattr("runner.ledger.writer.os.open", spy)
    ledger = writer(tmp_path / "l")
    assert opened == [(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)]
    ledger.close()


def test_each_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = writer(tmp_path / "l")
    calls: list[bytes] = []
    real = os.write
    monkeypatch.setattr("runner.ledger.writer.os.write", lambda fd, data: (calls.append(data), real(fd, data))[1])
    ledger.write(NoteRecord(message="x" * 100_000))
    ledger.close()
    assert [call.count(b"\n") for call in calls] == [1, 1]
    assert all(call.endswith(b"\n") for call in calls)


def test_a_short_write_raises_and_ends_the_ledger_without_a_trailer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "l"
    ledger = writer(path)
    real = os.write
    monkeypatch.setattr("runner.ledger.writer.os.write", lambda fd, data: real(fd, data[:10]))
    with pytest.raises(LedgerError, match="short write: 10 of"):
        ledger.write(NoteRecord(message="lost"))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="earlier write failed"):
        ledger.write(NoteRecord(message="after"))
    ledger.close()
    assert {problem.kind for problem in read_ledger(path).problems} == {ProblemKind.TORN_LINE, ProblemKind.NO_TRAILER}


def test_a_full_disk_raises_and_ends_the_ledger_without_a_trailer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = writer(tmp_path / "l")

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runner.ledger.writer.os.write", full)
    with pytest.raises(OSError, match="No space"):
        ledger.write(NoteRecord(message="lost"))
    monkeypatch.undo()
    ledger.close()
    assert [problem.kind for problem in read_ledger(tmp_path / "l").problems] == [ProblemKind.NO_TRAILER]


def test_a_ledger_that_was_begun_is_not_begun_again(tmp_path: Path) -> None:
    writer(tmp_path / "l").close()
    before = (tmp_path / "l").read_bytes()
    with pytest.raises(LedgerError, match="begun before"):
        writer(tmp_path / "l")
    assert (tmp_path / "l").read_bytes() == before


def test_two_writers_cannot_have_one_file(tmp_path: Path) -> None:
    (tmp_path / "l").touch()
    with (tmp_path / "l").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LedgerError, match="another writer"):
            writer(tmp_path / "l")
    writer(tmp_path / "l").close()


def test_a_block_that_is_left_by_an_exception_leaves_no_trailer(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), writer(tmp_path / "l") as ledger:
        ledger.write(sample())
        raise KeyboardInterrupt
    read = read_ledger(tmp_path / "l")
    assert [problem.kind for problem in read.problems] == [ProblemKind.NO_TRAILER]
    assert len(read.records) == 1


def test_nothing_is_written_after_close_and_closing_twice_is_harmless(tmp_path: Path) -> None:
    ledger = writer(tmp_path / "l")
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.write(NoteRecord(message="late"))
    assert read_ledger(tmp_path / "l").complete


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_nan_and_no_infinity_reaches_a_line(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValidationError):
        sample(seconds=value)
    record = sample()
    record.seconds = value
    with writer(tmp_path / "l") as ledger, pytest.raises(ValidationError):
        ledger.write(record)
    assert read_ledger(tmp_path / "l").complete
    assert b"sample" not in (tmp_path / "l").read_bytes()


def test_texts_are_cut_and_lone_surrogates_replaced_so_that_no_record_is_lost(tmp_path: Path) -> None:
    record = sample()
    long = {"expected_text": "x" * 301, "actual_text": "\ud800y", "segment_index": 3}
    record = SampleRecord.model_validate(record.model_dump() | {"assistant_mismatch_example": long})
    with writer(tmp_path / "l") as ledger:
        ledger.write(record)
        with pytest.raises(AssertionError), ledger.journal("chat", 0):
            raise AssertionError("m" * 5000)
    read = read_ledger(tmp_path / "l")
    assert read.complete
    first, second = read.records
    assert isinstance(first, SampleRecord)
    assert first.assistant_mismatch_example == {"expected_text": "x" * 300, "actual_text": "?y", "segment_index": 3}
    assert isinstance(second, VerificationErrorRecord)
    assert second.verification_error.message == "m" * 1000


def test_a_failure_is_on_disk_before_it_is_raised_again(tmp_path: Path) -> None:
    path = tmp_path / "l"
    events: list[str] = []
    with writer(path) as ledger, pytest.raises(VerificationError), ledger.journal("driver", 1, events):
        events.append("append_tool")
        try:
            with ledger.journal("inner", 1, events):
                raise VerificationError("prefix", "token 5 differs")
        finally:
            on_disk = path.read_bytes()
    assert b"token 5 differs" in on_disk
    (record,) = read_ledger(path).records
    assert isinstance(record, VerificationErrorRecord)
    assert (record.verification_error.stage, record.verification_error.type) == ("prefix", "VerificationError")
    assert record.driver_events == ["append_tool"]
    assert not record.model_incomplete


def test_the_kind_of_failure_decides_the_kind_of_record(tmp_path: Path) -> None:
    with writer(tmp_path / "l") as ledger:
        for error in (
            InfrastructureError("engine is gone"),
            ModelIncompleteError("reply", "kept stopping"),
            KeyError("x"),
        ):
            with pytest.raises(type(error)), ledger.journal("driver", 0):
                raise error
    infra, model, other = read_ledger(tmp_path / "l").records
    assert isinstance(infra, InfraRecord)
    assert infra.sample_index == 0
    assert isinstance(model, VerificationErrorRecord)
    assert model.model_incomplete
    assert isinstance(other, VerificationErrorRecord)
    assert (other.verification_error.stage, other.verification_error.type) == ("driver", "KeyError")


def test_cancellation_is_not_a_failed_check(tmp_path: Path) -> None:
    with writer(tmp_path / "l") as ledger, pytest.raises(asyncio.CancelledError), ledger.journal("driver", 0):
        raise asyncio.CancelledError
    assert read_ledger(tmp_path / "l").records == []


def test_threads_share_a_writer_without_mixing_lines(tmp_path: Path) -> None:
    with writer(tmp_path / "l") as ledger:
        threads = [
            threading.Thread(target=lambda n=n: [ledger.write(NoteRecord(message=f"{n}-{i}" * 500)) for i in range(40)])
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    read = read_ledger(tmp_path / "l")
    assert read.complete
    assert len(read.records) == 160


def test_every_line_says_when_it_was_written_and_a_clock_that_is_set_does_not_matter(tmp_path: Path) -> None:
    seconds = iter([100.0, 101.5, 104.0, 110.0])
    begun = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with LedgerWriter(
        tmp_path / "l", run="run", cell=CELL, writer="test", started_at=begun, clock=lambda: next(seconds)
    ) as ledger:
        kept = NoteRecord(message="one")
        ledger.write(kept)
        ledger.write(NoteRecord(message="two"))
    read = read_ledger(tmp_path / "l")
    assert read.complete
    assert kept.at is None, "the record that was passed is not touched"
    assert [record.at for record in read.records] == [begun + timedelta(seconds=s) for s in (1.5, 4)]
    assert read.span == (begun, begun + timedelta(seconds=10))


def test_a_further_writer_of_a_cell_has_a_file_of_its_own_that_is_found_with_the_first(tmp_path: Path) -> None:
    cell = CellId.parse(CELL)
    first, second = cell_ledger(tmp_path, cell), cell_ledger(tmp_path, cell, "worker-1")
    for path in (first, second):
        writer(path).close()
    assert sorted(first.parent.glob(LEDGERS)) == sorted([first, second])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"SESSION_VERIFY_METRICS_PATH": ""}, None),
        ({"SESSION_VERIFY_METRICS_PATH": "/a"}, Path("/a")),
        ({"MILES_SESSION_VERIFY_METRICS_PATH": "/b"}, Path("/b")),
        ({"SESSION_VERIFY_METRICS_PATH": "", "MILES_SESSION_VERIFY_METRICS_PATH": "/b"}, Path("/b")),
        ({"SESSION_VERIFY_METRICS_PATH": "/a", "MILES_SESSION_VERIFY_METRICS_PATH": "/a"}, Path("/a")),
    ],
)
def test_the_environment_may_name_the_ledger_by_either_variable(environ: dict[str, str], expected: Path | None) -> None:
    assert ledger_path(environ) == expected


def test_two_variables_that_name_two_ledgers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="name two ledgers"):
        ledger_path({"SESSION_VERIFY_METRICS_PATH": "/a", "MILES_SESSION_VERIFY_METRICS_PATH": "/b"})
