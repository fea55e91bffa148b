"""The scenarios about time in one process, where every turn ends before the next can meet it: what they write down.

With real sockets and faults they are driven in tests/unit/lane/test_timing.py.
"""

from __future__ import annotations

import pytest

from runner.agents.scenarios.budget import BUDGETS
from runner.agents.scenarios.concurrent import COUNT, ROUNDS
from runner.base.terms import Lane
from tests.unit.agents.scenarios.stage import driven


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("stream", [True, False])
def test_each_budget_is_a_turn_with_what_was_kept_of_it(lane: Lane, stream: bool) -> None:
    session = driven("max-tokens", lane, stream=stream)
    assert session.hard() == set()
    assert session.covered()
    swept = [turn for turn in session.transcript.turns if turn.budget is not None]
    assert [turn.budget for turn in swept] == list(BUDGETS)
    assert all(turn.kept is not None and turn.kept.response_id == turn.response_id for turn in swept)
    cut = [turn for turn in swept if turn.finish_reason in ("length", "max_tokens")]
    assert cut and all(turn.completion_tokens == turn.budget for turn in cut)
    assert session.transcript.driver_events.count("refused") == len(cut)
    assert len(session.transcript.path) == 2, "the whole call and its answer go on from none of them"


@pytest.mark.parametrize("lane", Lane)
def test_equal_requests_are_siblings_and_the_last_of_them_goes_on(lane: Lane) -> None:
    session = driven("identical", lane)
    assert session.hard() == set()
    assert session.covered()
    assert [turn.parent for turn in session.transcript.turns] == [None, None, None, 3, 3, 3, 6]


@pytest.mark.parametrize("lane", Lane)
def test_lost_replies_are_written_down_with_what_the_server_kept_of_them(lane: Lane) -> None:
    session = driven("reply-lost", lane)
    assert session.hard() == set()
    assert session.covered()
    lost = session.transcript.unseen
    assert [(unseen.turn, unseen.parent) for unseen in lost] == [(1, None), (2, 1), (3, 2)]
    assert all(unseen.recorded and unseen.kept is not None for unseen in lost), "the engine answers at once here"
    known = {turn.response_id for turn in session.transcript.turns}
    assert not known & {unseen.kept.response_id for unseen in lost if unseen.kept is not None}


@pytest.mark.parametrize("lane", Lane)
def test_turns_that_never_met_are_sent_again_and_are_no_proof_in_the_end(lane: Lane) -> None:
    session = driven("concurrent", lane)
    assert session.hard() == set(), "each is a branch all the same, or on a line takes the place of the one before"
    assert len(session.transcript.turns) == 2 * (COUNT * ROUNDS + 1)
    assert not session.covered()
