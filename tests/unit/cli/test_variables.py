"""`NAME=value` arguments, and the page that documents the variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.reading import read_settings
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


@pytest.mark.parametrize(("value", "kept"), [("1", True), ("0", False)])
def test_keep_is_one_or_zero(monkeypatch: pytest.MonkeyPatch, value: str, kept: bool) -> None:
    monkeypatch.setenv("KEEP", value)
    settings, problems = read_settings()
    assert (settings.keep, problems) == (kept, [])


@pytest.mark.parametrize("value", ["yes", "true", "True", "on", "off", "no", "2", "01", "1.0", " 1"])
def test_keep_takes_nothing_else_than_its_page_says(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("KEEP", value)
    settings, problems = read_settings()
    assert not settings.keep
    assert problems == [f"KEEP={value!r}: is neither; allowed: 1 or 0"]


def test_the_settings_page_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "settings.md").read_text().endswith(describe_markdown())
