"""The host's ledgers: each lease's steps as they happen, and nothing that must not be in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.events import NoteEvent, PhaseEvent
from runner.cli.steps import HostLedgers
from runner.ledger.paths import lease_ledger
from runner.ledger.reader import ProblemKind, read_ledger
from runner.ledger.records import PhaseRecord
from runner.stack.redact import Redactor


def phases(run: Path, family: str = "qwen3") -> list[tuple[str, str]]:
    records = read_ledger(lease_ledger(run, family)).records
    return [(record.phase, record.detail) for record in records if isinstance(record, PhaseRecord)]


@pytest.fixture
def ledgers(tmp_path: Path) -> HostLedgers:
    return HostLedgers(tmp_path, "run", ["qwen3", "glm47"], Redactor(["hunter22"]))


def test_a_step_is_on_disk_at_once_and_secrets_are_not(ledgers: HostLedgers, tmp_path: Path) -> None:
    assert ledgers.note(PhaseEvent(lease="qwen3", phase="starting", detail="token hunter22")) == ""
    assert phases(tmp_path) == [("starting", "token [redacted]")]
    assert ProblemKind.NO_TRAILER in {problem.kind for problem in read_ledger(lease_ledger(tmp_path, "qwen3")).problems}


def test_steps_go_to_their_own_lease_until_it_is_ended(ledgers: HostLedgers, tmp_path: Path) -> None:
    for family in ("qwen3", "glm47"):
        ledgers.note(PhaseEvent(lease=family, phase="up", seconds=46.0))
    ledgers.take("qwen3").close()
    for family in ("qwen3", "glm47"):
        assert ledgers.note(PhaseEvent(lease=family, phase="removing")) == ""
    assert phases(tmp_path) == [("up", "")]
    assert phases(tmp_path, "glm47") == [("up", ""), ("removing", "")]
    assert read_ledger(lease_ledger(tmp_path, "qwen3")).complete
    with pytest.raises(ValueError, match="ended before"):
        ledgers.take("qwen3")


def test_what_is_no_step_of_a_lease_is_not_written(ledgers: HostLedgers, tmp_path: Path) -> None:
    ledgers.note(NoteEvent(message="hello"))
    ledgers.note(PhaseEvent(lease="machine", phase="building"))
    ledgers.note(PhaseEvent(lease="qwen3", phase="starting", detail="still loading", seconds=10.0))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_in_the_ledger_of_every_lease_that_is_not_done(ledgers: HostLedgers, tmp_path: Path) -> None:
    ledgers.note(PhaseEvent(lease="qwen3", phase="starting"))
    for family in ("qwen3", "glm47"):
        ledgers.interrupt(family)
    assert phases(tmp_path) == [("starting", ""), ("interrupted", "")]
    assert phases(tmp_path, "glm47") == [("interrupted", "")], "one that had not begun as well"
    for family in ("qwen3", "glm47"):
        assert not read_ledger(lease_ledger(tmp_path, family)).complete


def test_an_interrupt_after_a_lease_was_done_leaves_its_ledger_whole(ledgers: HostLedgers, tmp_path: Path) -> None:
    ledgers.note(PhaseEvent(lease="qwen3", phase="up"))
    ledgers.take("qwen3").close()
    ledgers.interrupt("qwen3")
    assert phases(tmp_path) == [("up", "")]
    assert read_ledger(lease_ledger(tmp_path, "qwen3")).complete


def test_a_lease_without_any_step_has_a_ledger_all_the_same(ledgers: HostLedgers, tmp_path: Path) -> None:
    ledgers.take("qwen3").close()
    assert read_ledger(lease_ledger(tmp_path, "qwen3")).complete


def test_a_ledger_that_cannot_be_written_is_told_and_does_not_raise(
    ledgers: HostLedgers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers.note(PhaseEvent(lease="qwen3", phase="up"))

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runner.ledger.writer.os.write", full)
    assert "No space left" in ledgers.note(PhaseEvent(lease="qwen3", phase="removing"))
    monkeypatch.undo()
    ledgers.take("qwen3").close()
    assert not read_ledger(lease_ledger(tmp_path, "qwen3")).complete, "a loss is never hidden by a trailer"
