"""The reader: a damaged ledger is described, never guessed at and never a crash."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.reader import Ledger, ProblemKind, parse_ledger, read_ledger
from runner.ledger.records import RECORD_ADAPTER, FaultRecord, NoteRecord, Trailer
from runner.ledger.writer import LedgerWriter
from tests.unit.ledger.samples import sample


def whole(tmp_path: Path, count: int = 3) -> bytes:
    path = tmp_path / "l"
    with LedgerWriter(path, run="run", cell="c", writer="w") as ledger:
        for number in range(count):
            ledger.write(NoteRecord(message=f"note {number}"))
    return path.read_bytes()


def kinds(data: bytes) -> list[ProblemKind]:
    return [problem.kind for problem in parse_ledger(data, path="l").problems]


def sealed(lines: list[bytes]) -> bytes:
    """The lines with a trailer that fits them."""
    body = b"".join(lines)
    ended = datetime.now(UTC) + timedelta(minutes=1)
    trailer = Trailer(records=len(lines), sha256=hashlib.sha256(body).hexdigest(), ended_at=ended)
    return body + trailer.model_dump_json().encode() + b"\n"


def test_a_whole_ledger_has_no_problem(tmp_path: Path) -> None:
    ledger = parse_ledger(whole(tmp_path), path="l")
    assert ledger.complete
    assert ledger.header is not None
    assert ledger.header.run == "run"
    assert [record.message for record in ledger.records if isinstance(record, NoteRecord)] == [
        "note 0",
        "note 1",
        "note 2",
    ]


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert [p.kind for p in read_ledger(tmp_path / "none").problems] == [ProblemKind.UNREADABLE]


def test_an_empty_file_is_a_problem() -> None:
    assert kinds(b"") == [ProblemKind.EMPTY]


def test_a_missing_trailer_is_reported_and_the_records_are_kept(tmp_path: Path) -> None:
    ledger = parse_ledger(b"".join(whole(tmp_path).splitlines(keepends=True)[:-1]), path="l")
    assert [p.kind for p in ledger.problems] == [ProblemKind.NO_TRAILER]
    assert len(ledger.records) == 3
    assert ledger.damaged == []


def test_a_torn_last_line_is_left_out_and_reported(tmp_path: Path) -> None:
    lines = whole(tmp_path).splitlines(keepends=True)
    ledger = parse_ledger(b"".join(lines[:-2]) + lines[-2][:7], path="l")
    assert [p.kind for p in ledger.problems] == [ProblemKind.TORN_LINE, ProblemKind.NO_TRAILER]
    assert len(ledger.records) == 2
    assert ledger.damaged == []


def test_a_line_without_its_newline_is_torn_even_if_it_reads_well(tmp_path: Path) -> None:
    assert kinds(whole(tmp_path)[:-1]) == [ProblemKind.TORN_LINE, ProblemKind.NO_TRAILER]


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"\n",
        b"[]\n",
        b'{"kind":"unheard-of"}\n',
        b'{"kind":"note"}\n',
        b'{"kind":"note","message":"a","extra":1}\n',
        b'{"kind":"note","message":NaN}\n',
        b'{"kind":"infra","service":"engine","message":"m","exit_code":Infinity}\n',
        b"\xff\n",
    ],
)
def test_a_bad_line_in_the_middle_is_damage_even_under_a_trailer_that_fits(tmp_path: Path, line: bytes) -> None:
    lines = whole(tmp_path).splitlines(keepends=True)[:-1]
    ledger = parse_ledger(sealed([lines[0], line, *lines[1:]]), path="l")
    assert [(p.kind, p.line) for p in ledger.damaged] == [(ProblemKind.BAD_LINE, 2)]


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_a_number_that_is_none_is_damage(tmp_path: Path, value: bytes) -> None:
    record = sample(2.5, datetime.now(UTC) + timedelta(seconds=30))
    line = record.model_dump_json().encode() + b"\n"
    header = whole(tmp_path).splitlines(keepends=True)[0]
    assert kinds(sealed([header, line])) == []
    assert kinds(sealed([header, line.replace(b"2.5", value)])) == [ProblemKind.BAD_LINE]


def test_a_dropped_line_breaks_count_and_hash(tmp_path: Path) -> None:
    lines = whole(tmp_path).splitlines(keepends=True)
    assert kinds(b"".join([*lines[:2], *lines[3:]])) == [ProblemKind.WRONG_COUNT, ProblemKind.WRONG_HASH]


def test_an_edited_line_breaks_the_hash(tmp_path: Path) -> None:
    assert kinds(whole(tmp_path).replace(b"note 1", b"note 7")) == [ProblemKind.WRONG_HASH]


def test_a_wrong_count_is_found_even_if_the_hash_fits(tmp_path: Path) -> None:
    data = whole(tmp_path).replace(b'"records":4', b'"records":5')
    assert kinds(data) == [ProblemKind.WRONG_COUNT]


def test_a_trailer_that_was_touched_is_damage_even_if_it_means_the_same(tmp_path: Path) -> None:
    assert kinds(whole(tmp_path).replace(b'"records":4', b'"records": 4')) == [ProblemKind.BAD_LINE]


@pytest.mark.parametrize("more", [b'{"kind":"note","message":"late"}\n', b"torn"])
def test_anything_after_the_trailer_is_damage(tmp_path: Path, more: bytes) -> None:
    assert kinds(whole(tmp_path) + more) == [ProblemKind.AFTER_TRAILER]


def test_two_ledgers_in_one_file_are_damage(tmp_path: Path) -> None:
    data = whole(tmp_path)
    assert ProblemKind.AFTER_TRAILER in kinds(data + data)
    lines = data.splitlines(keepends=True)[:-1]
    assert kinds(sealed([*lines, lines[0]])) == [ProblemKind.SECOND_HEADER]


def test_a_ledger_without_header_is_damage(tmp_path: Path) -> None:
    lines = whole(tmp_path).splitlines(keepends=True)[1:-1]
    assert kinds(sealed(lines)) == [ProblemKind.NO_HEADER]


def test_an_unknown_schema_version_is_named_and_nothing_is_read(tmp_path: Path) -> None:
    ledger = parse_ledger(whole(tmp_path).replace(b'"schema_version":2', b'"schema_version":3'), path="l")
    assert [p.kind for p in ledger.problems] == [ProblemKind.SCHEMA]
    assert "schema version 3; this reader knows 2" in str(ledger.problems[0])
    assert ledger.records == []


def test_a_record_without_its_time_is_damage(tmp_path: Path) -> None:
    header = whole(tmp_path).splitlines(keepends=True)[0]
    assert kinds(sealed([header, b'{"kind":"note","message":"a"}\n'])) == [ProblemKind.BAD_LINE]


def test_lines_that_changed_places_are_damage_even_under_a_trailer_that_fits(tmp_path: Path) -> None:
    header, *lines = whole(tmp_path).splitlines(keepends=True)[:-1]
    assert kinds(sealed([header, *lines])) == []
    ledger = parse_ledger(sealed([header, lines[1], lines[0], lines[2]]), path="l")
    assert [(p.kind, p.line) for p in ledger.damaged] == [(ProblemKind.CLOCK, 3)]


@pytest.mark.parametrize("version", [b"1", b"3", b'"2"', b"2.0", b"null", b"true"])
def test_a_schema_version_that_is_not_ours_is_refused(tmp_path: Path, version: bytes) -> None:
    data = whole(tmp_path).replace(b'"schema_version":2', b'"schema_version":' + version)
    assert [p.kind for p in parse_ledger(data, path="l").damaged][:1] == [ProblemKind.SCHEMA]


@given(data=st.binary(max_size=300))
def test_no_bytes_make_the_reader_raise_or_believe(data: bytes) -> None:
    ledger = parse_ledger(data, path="l")
    assert isinstance(ledger, Ledger)
    assert not ledger.complete


@given(message=st.text(), name=st.text(), detail=st.text())
def test_every_record_reads_back_as_it_was_written(message: str, name: str, detail: str) -> None:
    for record in (NoteRecord(message=message), FaultRecord(name=name, detail=detail)):
        assert RECORD_ADAPTER.validate_json(record.model_dump_json()) == record
