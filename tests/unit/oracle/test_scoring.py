"""Scoring replay and render parity: the engine's second word about the kept tokens."""

from __future__ import annotations

import orjson
import pytest

from runner.agents.records import OutputToken, SessionView, read
from runner.oracle.finding import Finding, Severity
from runner.oracle.parity import check_parity
from runner.oracle.scoring import check_scoring, scored_range
from tests.scripted_engine.engine import ScriptedEngine
from tests.unit.agents.bench import MODEL
from tests.unit.oracle.conftest import Case


def view(case: Case) -> SessionView:
    return read(SessionView, orjson.dumps(case.snapshot), "records", "snapshot")


def scores(case: Case) -> list[OutputToken]:
    """What the scripted engine says, whose log-probs depend on two neighbours only."""
    whole, start = scored_range(view(case).records)
    return [OutputToken(*entry) for entry in ScriptedEngine(MODEL).score(whole, start)]


def checked(case: Case, scored: list[OutputToken], *, temperature: float = 1.0, precise: bool = True) -> list[Finding]:
    return check_scoring(
        view(case).records,
        case.transcript.path,
        scored,
        temperature=temperature,
        precise=precise,
        tokens=case.tokens,
    )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_the_recorded_ones_have_no_finding(session: Case, grown: Case, temperature: float) -> None:
    assert checked(session, scores(session), temperature=temperature) == []
    assert checked(grown, scores(grown), temperature=temperature) == []


def test_other_ids_are_a_hard_finding_with_their_place(session: Case) -> None:
    scored = scores(session)
    scored[300] = scored[300]._replace(token_id=scored[300].token_id + 1)
    (finding,) = checked(session, scored)
    assert (finding.type, finding.severity) == ("ids", Severity.HARD)
    assert finding.diff is not None
    assert finding.diff.token_index == 300
    (short,) = checked(session, scores(session)[:-1])
    assert short.type == "ids"


@pytest.mark.parametrize("change", [0.001, -0.001, None])
def test_a_log_prob_beyond_the_tolerance_is_a_hard_finding(session: Case, change: float | None) -> None:
    scored = scores(session)
    last = scored[-1]
    assert last.logprob is not None
    scored[-1] = last._replace(logprob=None if change is None else last.logprob + change)
    (finding,) = checked(session, scored)
    assert (finding.type, finding.severity, finding.role) == ("logprobs", Severity.HARD, "assistant")
    assert finding.turn == session.transcript.path[-1].turn


def test_a_log_prob_within_the_tolerance_is_none(session: Case) -> None:
    scored = scores(session)
    assert scored[-1].logprob is not None
    scored[-1] = scored[-1]._replace(logprob=scored[-1].logprob + 5e-5)
    assert checked(session, scored) == []


def test_forced_turns_and_other_temperatures_compare_ids_only(session: Case, messages: Case) -> None:
    first = view(messages).records[0]
    scored = scores(messages)
    at = len(first.input_ids) - scored_range(view(messages).records)[1]
    scored[at] = scored[at]._replace(logprob=-99.0)
    assert checked(messages, scored) == [], "the first turn is forced: its sampling was masked"
    scaled = [token._replace(logprob=-99.0) for token in scores(session)]
    for options in ({"temperature": 0.7}, {"precise": False}):
        (note,) = checked(session, scaled, **options)  # type: ignore[arg-type]
        assert (note.type, note.severity) == ("ids_only", Severity.NOTE)


def test_parity_is_told_and_never_failed(session: Case) -> None:
    first = view(session).records[0]
    assert check_parity(first, first.input_ids, session.tokens) == []
    (note,) = check_parity(first, [*first.input_ids[:50], 7, *first.input_ids[50:]], session.tokens)
    assert (note.check, note.severity) == ("parity", Severity.NOTE)
    assert note.diff is not None
    assert note.diff.token_index == 50
