"""Whether an engine honours a seed: asked of the engine, kept in the artifacts, and said alike in every report."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.base.settings import Settings
from runner.cli.preflight import preflight
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.report.closing import print_closing
from runner.report.html import html
from runner.report.summary import summary
from runner.report.write import write_plan
from runner.verdict.artifacts import load_run
from runner.verdict.engine import Seen
from tests.scripted_engine.app import build
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL

IMPROBABLE = 2.0
"""Negated log-prob of a token, with which no text of some length comes twice by chance."""
IGNORED: list[Fault] = []
HONOURED = [Fault(Kind.SEEDED, times=None, value=IMPROBABLE)]
UNPROVEN = [Fault(Kind.SEEDED, times=None)]


def reported(faults: list[Fault], run: Path) -> tuple[Seen, list[str]]:
    """What a run of one family on such an engine finds, and its console, summary.md and report.html."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    settings = Settings.model_validate({"cell": "qwen3/v1-openai/baseline"})
    plan = build_plan(settings, load_families(), run_id="run", now=now, versions={})
    lease = plan.leases[0].model_copy(update={"tokenizer": str(MODEL)})
    plan = plan.model_copy(update={"leases": [lease]})
    write_plan(run, plan)
    with served(build(ScriptedEngine(MODEL, faults))) as url:
        asyncio.run(preflight(lease, run, {"engine": url}, lambda event: None)([]))
    _, verdict = load_run(run)
    (facts,) = verdict.engines
    assert facts.determinism is not None
    console = io.StringIO()
    print_closing(verdict, run, stream=console)
    page = html(plan, verdict)
    return facts.determinism.same_seed, [console.getvalue(), summary(verdict), page[page.index('id="engines"') :]]


@pytest.mark.parametrize(
    ("faults", "answer"),
    [(IGNORED, Seen.NO), (UNPROVEN, Seen.NOT_KNOWN)],
    ids=["the seed is ignored", "chance may have made the same text"],
)
def test_a_seed_that_was_not_seen_to_work_is_claimed_in_no_report(
    faults: list[Fault], answer: Seen, tmp_path: Path
) -> None:
    seen, (console, markdown, page) = reported(faults, tmp_path)
    assert seen is answer
    for text in (console, markdown):
        assert f"same seed, same text: {answer};" in text
        assert "same seed, same text: yes" not in text
    assert f"<td>{answer}<br>" in page


def test_a_seed_that_decides_the_text_is_said_to_work_in_every_report(tmp_path: Path) -> None:
    seen, (console, markdown, page) = reported(HONOURED, tmp_path)
    assert seen is Seen.YES
    for text in (console, markdown):
        assert "same seed, same text: yes;" in text
    assert "<td>yes<br>" in page
