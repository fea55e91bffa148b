"""The end of a lease whose engine is gone: what stays behind is left to the next sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.base.events import Event, NoteEvent
from runner.stack import lease as module
from runner.stack.lease import Budgets, Lease
from runner.stack.lock import Owner, held, owner
from runner.stack.redact import Redactor


def test_what_cannot_be_removed_is_left_to_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "answers", lambda client, seconds: False)
    said: list[Event] = []
    nothing: Any = None
    lease = Lease(nothing, nothing, "run-a", "qwen3", tmp_path, Budgets(1, 1, 1), Redactor([]), said.append)
    with held("run-a") as path:
        lease.finish()
    assert owner(path) is Owner.DEAD
    assert any(isinstance(event, NoteEvent) and "sweep removes it" in event.message for event in said)
