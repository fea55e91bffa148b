"""A ledger that held a secret holds none afterwards, is sound if it was sound, and says that it was changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.ledger.reader import ProblemKind, parse_ledger
from runner.ledger.records import InfraRecord, NoteRecord, RedactedRecord
from runner.ledger.sealed import Sealing
from runner.ledger.writer import LedgerWriter

SECRET = 'hf_sentinel"value\\with/all<of>it&ü'
PLAIN = "hf_sentinelvalue"


def written(path: Path, *texts: str, close: bool = True) -> bytes:
    ledger = LedgerWriter(path, run="run", cell="qwen3/v1-openai/baseline", writer="test")
    for text in texts:
        ledger.write(NoteRecord(message=text))
    ledger.write(InfraRecord(service="engine", message="ended", log_tail=list(texts)))
    if close:
        ledger.close()
    else:
        ledger.abandon()
    return path.read_bytes()


@pytest.mark.parametrize("secret", [PLAIN, SECRET])
def test_a_sound_ledger_stays_sound_and_says_what_was_done(tmp_path: Path, secret: str) -> None:
    data = written(tmp_path / "ledger.jsonl", f"the engine said {secret}", "nothing of note")
    clean = Sealing([secret])(data)
    assert secret.encode() not in clean
    assert json.dumps(secret)[1:-1].encode() not in clean
    before, after = parse_ledger(data, path=""), parse_ledger(clean, path="")
    assert after.problems == []
    assert before.trailer is not None
    assert [type(record) for record in after.records] == [*(type(record) for record in before.records), RedactedRecord]
    last = after.records[-1]
    assert isinstance(last, RedactedRecord)
    assert last.written_sha256 == before.trailer.sha256
    assert after.span == before.span
    first = after.records[0]
    assert isinstance(first, NoteRecord)
    assert first.message == "the engine said [redacted]"


def test_cleaning_twice_changes_nothing_more(tmp_path: Path) -> None:
    redact = Sealing([PLAIN])
    clean = redact(written(tmp_path / "ledger.jsonl", PLAIN))
    assert redact(clean) == clean


def test_a_ledger_without_a_secret_keeps_every_byte(tmp_path: Path) -> None:
    data = written(tmp_path / "ledger.jsonl", "hello")
    assert Sealing([PLAIN])(data) == data


def test_an_unfinished_ledger_is_cleaned_and_stays_unfinished(tmp_path: Path) -> None:
    data = written(tmp_path / "ledger.jsonl", PLAIN, close=False) + b'{"kind":"note","message":"' + PLAIN.encode()
    clean = Sealing([PLAIN])(data)
    assert PLAIN.encode() not in clean
    kinds = {problem.kind for problem in parse_ledger(clean, path="").problems}
    assert kinds == {ProblemKind.NO_TRAILER, ProblemKind.TORN_LINE}


def test_an_edited_ledger_is_cleaned_and_is_not_made_good(tmp_path: Path) -> None:
    data = written(tmp_path / "ledger.jsonl", PLAIN).replace(b'"service":"engine"', b'"service":"runner"')
    clean = Sealing([PLAIN])(data)
    assert PLAIN.encode() not in clean
    assert ProblemKind.WRONG_HASH in {problem.kind for problem in parse_ledger(clean, path="").problems}


def test_digits_of_a_number_are_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path, run="run", cell="qwen3/v1-openai/baseline", writer="test") as ledger:
        ledger.write(InfraRecord(sample_index=1234567890, service="engine", message="pass is 12345678"))
    after = parse_ledger(Sealing(["12345678"])(path.read_bytes()), path="")
    assert after.problems == []
    (record, _) = after.records
    assert isinstance(record, InfraRecord)
    assert (record.sample_index, record.message) == (1234567890, "pass is [redacted]")


def test_other_files_are_redacted_as_they_are() -> None:
    assert Sealing([PLAIN])(f"a log with {PLAIN}".encode()) == b"a log with [redacted]"
