"""The last look: no file of a run holds a secret, whatever it was spelled like, and nothing shown does either."""

from __future__ import annotations

import html
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from runner.base.events import NoteEvent, PhaseEvent
from runner.cli.clean import clean, without_secrets
from runner.ledger.sealed import Sealing
from runner.stack.redact import Redactor, secret_values

SECRET = 'sentinel"secret<&/ü'


@pytest.mark.parametrize(
    "spelled",
    [SECRET, json.dumps(SECRET), json.dumps(SECRET, ensure_ascii=False), html.escape(SECRET), quote(SECRET, safe="")],
    ids=["raw", "JSON", "JSON, not ASCII", "HTML", "URL"],
)
def test_every_spelling_is_found_in_every_file(tmp_path: Path, spelled: str) -> None:
    deep = tmp_path / "cells" / "a"
    deep.mkdir(parents=True)
    (deep / "x.json").write_text(f"before {spelled} after")
    (deep / "x.json").chmod(0o600)
    (tmp_path / "other").write_text("nothing")
    assert clean(tmp_path, Sealing([SECRET])) == [deep / "x.json"]
    left = (deep / "x.json").read_text()
    assert "sentinel" not in left
    assert "[redacted]" in left
    assert (deep / "x.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in sorted(tmp_path.rglob("*")) if path.is_file()] == ["x.json", "other"]
    assert clean(tmp_path, Sealing([SECRET])) == []


def test_a_link_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    inside = tmp_path / "run"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    assert clean(inside, Sealing([SECRET])) == []
    assert outside.read_text() == SECRET


def test_what_is_shown_is_clean_as_well() -> None:
    redact = Redactor([SECRET])
    assert without_secrets(NoteEvent(message=f"said {SECRET}"), redact) == NoteEvent(message="said [redacted]")
    untouched = PhaseEvent(lease="qwen3", phase="up")
    assert without_secrets(untouched, redact) is untouched


def test_an_event_that_cannot_be_shown_without_its_secret_is_left_out() -> None:
    shown = without_secrets(PhaseEvent(lease="q", phase="up", seconds=12345678.5), Redactor(["12345678"]))
    assert isinstance(shown, NoteEvent)
    assert "12345678" not in shown.message


def test_secrets_are_known_by_the_names_of_variables_and_short_values_are_not_looked_for() -> None:
    environment = {
        "HF_TOKEN": "hf_abcdefgh",
        "API_KEY": "short",
        "PATH": "/usr/bin:/bin",
        "MY_SECRET_X": "longer-than-that",
    }
    assert secret_values(environment) == ["longer-than-that", "hf_abcdefgh"]
