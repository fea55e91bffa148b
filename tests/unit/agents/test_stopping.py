"""A model or an engine that stops where it should not, as whole cells: what the gate makes of it, lane by lane.

A reply without an answer is the model's, and ends as `model-incomplete`; a reply that says another reason for its end
than it shows, or a call of a tool that is not there, is a failed check.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runner.base.terms import Lane
from runner.ledger.paths import cell_ledger
from runner.ledger.reader import read_ledger
from runner.ledger.records import AttemptRecord, VerificationErrorRecord
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.matrix.bench import Driven, drive, model_of

V1, V2, MESSAGES = Lane
INCOMPLETE, FAILED = "model-incomplete", "verifier-error"


@pytest.fixture(scope="module")
def drove(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Fault], Driven]:
    """The row of qwen3 with this fault."""
    model = model_of("qwen3", tmp_path_factory.mktemp("models"))
    return lambda fault: drive("qwen3", model, tmp_path_factory.mktemp("run"), faults=[fault])


def attempts(driven: Driven, lane: Lane) -> list[tuple[int, str]]:
    """Turn and cause of every reply that was asked for again."""
    path = cell_ledger(driven.artifacts, driven.cell(lane).id)
    return [(r.turn, r.cause) for r in read_ledger(path).records if isinstance(r, AttemptRecord)]


def ended(driven: Driven, lane: Lane) -> str:
    """What ended its only sample."""
    (record,) = [
        record
        for record in read_ledger(cell_ledger(driven.artifacts, driven.cell(lane).id)).records
        if isinstance(record, VerificationErrorRecord)
    ]
    return f"{record.verification_error.stage}: {record.verification_error.message}"


@pytest.mark.parametrize("kind", [Kind.EMPTY, Kind.STOPPED])
def test_a_model_that_stops_without_an_answer_is_asked_again_and_then_incomplete(
    kind: Kind, drove: Callable[[Fault], Driven]
) -> None:
    """The second turn is a text turn in every lane; an answer that is only thinking is none."""
    driven = drove(Fault(kind, turn=2, times=None))
    assert driven.outcomes() == dict.fromkeys(Lane, INCOMPLETE)
    for lane, most in ((V1, 2), (V2, 2), (MESSAGES, 8)):
        assert attempts(driven, lane) == [(2, "empty")] * most
        assert f"turn 2: exhausted {most} retries after" in ended(driven, lane)


@pytest.mark.parametrize("kind", [Kind.EMPTY, Kind.STOPPED])
def test_one_such_reply_is_asked_for_again_and_the_cell_passes_on_retry(
    kind: Kind, drove: Callable[[Fault], Driven]
) -> None:
    driven = drove(Fault(kind, turn=2))
    assert list(driven.outcomes().values()).count("pass") == 3
    assert sum(cell.passed_on_retry for cell in driven.verdict.cells) == 1
    assert sorted(entry for lane in Lane for entry in attempts(driven, lane)) == [(2, "empty")]


def test_a_reason_that_is_not_the_end_that_was_made_fails(drove: Callable[[Fault], Driven]) -> None:
    driven = drove(Fault(Kind.WRONG_REASON, turn=1, times=None))
    assert driven.outcomes() == dict.fromkeys(Lane, FAILED)
    for lane in (V1, V2):
        assert ended(driven, lane).endswith("finish_reason is 'stop' with 1 tool calls, expected 'tool_calls'")
    assert attempts(driven, MESSAGES) == [(1, "stop_reason")] * 8


def test_control_tokens_inside_a_tool_name_fail(drove: Callable[[Fault], Driven]) -> None:
    driven = drove(Fault(Kind.WRONG_NAME, turn=1, times=None))
    assert driven.outcomes() == dict.fromkeys(Lane, FAILED)
    for lane in (V1, V2):
        assert ended(driven, lane).startswith("reply: ")
        assert "the name is 'get_<|im_end|>weather', declared is only 'get_weather'" in ended(driven, lane)
    assert attempts(driven, MESSAGES) == [(1, "no_forced_call")] * 8


def test_a_forced_choice_that_is_ignored_is_asked_for_again_and_then_fails(drove: Callable[[Fault], Driven]) -> None:
    """Prose comes with 200 where a call was forced; the OpenAI lanes force none and go on in their own way."""
    driven = drove(Fault(Kind.NO_CALL, turn=1, times=None))
    assert driven.outcomes()[MESSAGES] == FAILED
    assert attempts(driven, MESSAGES) == [(1, "no_forced_call")] * 8
    assert ended(driven, MESSAGES).endswith("turn 1: exhausted 8 retries after no_forced_call")
    assert attempts(driven, V1) == attempts(driven, V2) == []
