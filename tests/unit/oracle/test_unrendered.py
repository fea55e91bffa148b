"""A family without a canonical form, from session to verdict and page: the check is told as not applicable."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.terms import Lane
from runner.ledger.records import Severity
from runner.oracle import forms, render
from runner.report.html import html
from tests.unit.matrix.bench import Driven, drive, model_of

V1, V2, _ = Lane
SAID = "the canonical re-render is not applicable: no form is written down for &#39;qwen3&#39;"


def shown(driven: Driven) -> str:
    """The report's page."""
    return html(driven.plan, driven.verdict)


def test_it_stands_in_the_verdict_and_on_the_page_of_a_cell_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (forms, render):
        monkeypatch.setattr(module, "FORMS", {})
    driven = drive("qwen3", model_of("qwen3", tmp_path), tmp_path, lanes=[V1, V2])
    assert driven.outcomes() == {V1: "pass", V2: "pass"}
    for cell in driven.verdict.cells:
        (sample,) = cell.samples
        assert [(f.check, f.type, f.severity) for f in sample.findings if f.check == "render"] == [
            ("render", "not_applicable", Severity.NOTE)
        ]
    assert shown(driven).count(SAID) >= 2


def test_nothing_of_it_is_said_of_a_family_that_has_one(tmp_path: Path) -> None:
    driven = drive("qwen3", model_of("qwen3", tmp_path), tmp_path, lanes=[V1])
    assert driven.outcomes() == {V1: "pass"}
    assert not [finding for finding in driven.findings(V1, Severity.NOTE) if finding.check == "render"]
    assert "not applicable: no form" not in shown(driven)
