"""`NAME=value` arguments, and the page that documents the variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.settings import describe_markdown
from runner.cli.variables import apply

ROOT = Path(__file__).parents[3]


def test_a_variable_reaches_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLES", "1")
    apply(["SAMPLES=3"])
    assert os.environ["SAMPLES"] == "3"


def test_every_wrong_argument_is_named_and_none_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLES", "1")
    with pytest.raises(ConfigurationError) as caught:
        apply(["SAMPLES=3", "SAMPELS=4", "loose"])
    assert len(caught.value.problems) == 2
    assert "did you mean SAMPLES?" in str(caught.value)
    assert "'loose' is not NAME=value" in str(caught.value)
    assert os.environ["SAMPLES"] == "1"


def test_the_settings_page_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "settings.md").read_text().endswith(describe_markdown())
