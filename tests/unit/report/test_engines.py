"""What the reports say about an engine: what was seen, and no word of repeating that was not."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.plan.model import Plan
from runner.report.closing import print_closing
from runner.report.html import html
from runner.report.summary import summary
from runner.verdict.engine import Capability, Determinism, EngineFacts, Seen
from runner.verdict.model import Verdict


def facts(same_seed: Seen = Seen.NO, *, able: bool = True) -> EngineFacts:
    found = Determinism(
        same_seed=same_seed, greedy=Seen.YES, temperature=1.0, tokens=24, other_seed_differs=True, chance=1e-13
    )
    return EngineFacts(
        family="qwen3",
        version="0.5.23",
        model="/models/<qwen3>",
        asked_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        seconds=2.5,
        capabilities=[
            Capability(name="token_ids", needed=True, available=True, seen="24 ids of 24 sampled tokens"),
            Capability(name="scoring", needed=True, available=able, seen="400: <no>"),
            Capability(name="tokenize", needed=False, available=False, seen="404: Not Found"),
        ],
        determinism=found if able else None,
    )


def reports(plan: Plan, verdict: Verdict) -> list[str]:
    """Console, summary.md and report.html."""
    stream = io.StringIO()
    print_closing(verdict, Path("artifacts/x"), stream=stream)
    page = html(plan, verdict)
    return [stream.getvalue(), summary(verdict), page[page.index('id="engines"') :]]


@pytest.mark.parametrize("answer", list(Seen))
def test_every_report_says_whether_the_same_seed_gave_the_same_text(plan: Plan, verdict: Verdict, answer: Seen) -> None:
    with_facts = verdict.model_copy(update={"engines": [facts(answer)]})
    console, markdown, page = reports(plan, with_facts)
    for text in (console, markdown):
        assert f"same seed, same text: {answer}" in text
        assert "version 0.5.23" in text
        assert "without tokenize" in text
    assert "0.5.23" in page
    assert f"<td>{answer}<br>" in page
    assert "tokenize: no" in page
    assert "<qwen3>" not in page


def test_what_is_missing_is_named_and_repeating_is_not_spoken_of(plan: Plan, verdict: Verdict) -> None:
    console, markdown, page = reports(plan, verdict.model_copy(update={"engines": [facts(able=False)]}))
    for text in (console, markdown):
        assert "lacks scoring" in text
        assert "same text:" not in text
    assert "scoring: no" in page
    assert page.count("not tried") == 2


def test_an_engine_that_was_not_asked_is_said_to_be_unknown(plan: Plan, verdict: Verdict) -> None:
    console, markdown, page = reports(plan, verdict)
    for text in (console, markdown):
        assert "whether it repeats itself is not known" in text
    assert "was not asked" in page
