"""The OpenAI agent against the session server over the scripted engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runner.agents import script
from runner.agents.session import ServiceError
from runner.base.errors import ConfigurationError, ModelIncompleteError, VerificationError
from runner.base.events import RetryEvent, TurnDone
from runner.base.terms import Role
from runner.plan.model import FailureMode
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import SEED, bench


@pytest.mark.parametrize("stream", [True, False])
def test_the_whole_schedule_is_driven_in_both_wire_modes(stream: bool) -> None:
    with bench() as b:
        transcript, view = asyncio.run(b.drive(stream=stream))
    assert transcript.driver_events == [
        "append_tool", "append_user", "append_tool", "append_system", "rollback", "rollback",
        "tool_call_failure_append_tool", "append_user", "append_tool", "append_system", "rollback",
        "force_final", "append_assistant",
    ]  # fmt: skip
    assert [turn.turn for turn in transcript.turns] == list(range(1, 15))
    assert [turn.turn for turn in transcript.path] == [1, 2, 3, 4, 7, 8, 9, 10, 12, 13, 14]
    assert len(view.records) == 11
    assert [event.action for event in b.events if isinstance(event, TurnDone)][:3] == [
        "start",
        "tool_result",
        "user_followup",
    ]
    assert all((turn.output_ids is None) == stream for turn in transcript.turns)
    assert not b.attempts


def test_every_request_holds_the_whole_history_the_tool_and_the_same_seed() -> None:
    with bench() as b:
        transcript, _ = asyncio.run(b.drive())
    for request, turn in zip(b.engine.requests, transcript.turns, strict=True):
        assert request["messages"] == turn.messages
        assert request["messages"][0] == {"role": "system", "content": script.SYSTEM}
        assert request["seed"] == SEED
        assert request["max_tokens"] == 256
        assert request["tools"][0]["function"]["name"] == "get_weather"


def test_a_rollback_repeats_the_request_before_it_word_for_word() -> None:
    with bench() as b:
        transcript, _ = asyncio.run(b.drive())
    for before, turn in zip(transcript.turns, transcript.turns[1:], strict=False):
        if turn.action == "rollback":
            assert turn.messages == before.messages
            assert turn.parent == before.parent


def test_injected_assistant_messages_come_last_and_without_reasoning() -> None:
    with bench() as b:
        transcript, _ = asyncio.run(b.drive())
    *_, one, two, asked = transcript.turns[-1].messages
    assert [one["content"], two["content"]] == list(script.INJECTED_ASSISTANT)
    assert one["role"] == two["role"] == "assistant"
    assert asked == {"role": "user", "content": script.SUMMARY_REQUEST}


def test_tool_results_and_questions_rotate() -> None:
    with bench() as b:
        transcript, _ = asyncio.run(b.drive(cycles=5))
    last = transcript.turns[-1].messages
    results = [m["content"] for m in last if m["role"] == "tool" and m["content"] != script.SENTINEL]
    assert results == [script.TOOL_RESULTS[index % 4] for index in range(len(results))]
    assert len(results) > 4
    questions = [m["content"] for m in last if m["role"] == "user" and "Now check" in str(m["content"])]
    assert questions == [script.USER_FOLLOWUPS[index % 4] for index in range(5)]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("kind", "cause"), [(Kind.TRUNCATE, "length"), (Kind.EMPTY, "empty")])
def test_an_unfinished_reply_is_asked_for_again_with_another_seed(kind: Kind, cause: str, stream: bool) -> None:
    with bench(faults=[Fault(kind, turn=2, times=2)]) as b:
        transcript, view = asyncio.run(b.drive(stream=stream))
    assert [(a.turn, a.attempt, a.cause, a.seed) for a in b.attempts] == [
        (2, 1, cause, SEED + 1_000_000),
        (2, 2, cause, SEED + 2_000_000),
    ]
    assert [request["seed"] for request in b.engine.requests[:5]] == [
        SEED, SEED, SEED + 1_000_000, SEED + 2_000_000, SEED,
    ]  # fmt: skip
    assert b.engine.requests[1]["messages"] == b.engine.requests[2]["messages"] == b.engine.requests[3]["messages"]
    second = transcript.turns[1]
    assert second.seed == SEED + 2_000_000
    assert [rejected.cause for rejected in second.rejected] == [cause, cause]
    assert transcript.retries == {cause: 2}
    assert transcript.unfinished == []
    assert [event.attempt for event in b.events if isinstance(event, RetryEvent)] == [1, 2]
    assert [record.response.id for record in view.records] == [turn.response_id for turn in transcript.path]


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        (Kind.TRUNCATE, ModelIncompleteError, "turn 2: exhausted 2 retries after finish_reason='length'"),
        (Kind.EMPTY, ModelIncompleteError, "turn 2: exhausted 2 retries after an empty answer"),
    ],
)
def test_two_repeats_are_the_most(kind: Kind, error: type[Exception], says: str) -> None:
    with bench() as b:
        b.engine.faults.append(Fault(kind, turn=2, times=None))
        agent, transcript = b.agent()

        async def run() -> None:
            transcript.session_id = await b.client.create()
            await agent.drive()

        with pytest.raises(error) as caught:
            asyncio.run(run())
    assert says in str(caught.value)
    assert len(b.engine.requests) == 4
    assert len(b.attempts) == 2
    assert len(transcript.unfinished) == 3, "the transcript of a broken-off session keeps what was rejected"
    assert sum(transcript.retries.values()) == 3


def failing(kind: Kind, **options: Any) -> BaseException:
    with bench(faults=[Fault(kind, turn=1, **options)]) as b, pytest.raises(Exception) as caught:
        asyncio.run(b.drive())
    return caught.value


def test_a_tool_that_nobody_declared_is_a_failure() -> None:
    error = failing(Kind.WRONG_NAME)
    assert isinstance(error, VerificationError)
    assert "get_<|im_end|>weather" in error.message


def test_an_engine_error_is_a_failed_check_with_its_status() -> None:
    error = failing(Kind.STATUS, value=418)
    assert isinstance(error, VerificationError)
    assert "answered 418" in error.message
    assert "scripted fault" in error.message


def test_a_reply_that_cannot_be_recorded_is_a_failed_check() -> None:
    for kind in (Kind.BROKEN_JSON, Kind.COMPLETION_TOKENS):
        error = failing(kind)
        assert isinstance(error, VerificationError)
        assert "answered 502" in error.message


def test_a_reply_that_never_comes_is_infrastructure() -> None:
    with bench(faults=[Fault(Kind.HANG, turn=2)]) as b, pytest.raises(ServiceError, match="no complete reply"):
        asyncio.run(b.drive(turn_timeout=0.2))


def test_failure_mode_append_user_asks_in_a_user_message() -> None:
    with bench(faults=[Fault(Kind.NO_CALL, turn=1)]) as b:
        transcript, _ = asyncio.run(b.drive(failure_mode=FailureMode.APPEND_USER))
    assert transcript.driver_events[0] == "tool_call_failure_append_user"
    assert transcript.turns[1].messages[-1] == {"role": "user", "content": script.SENTINEL}


def test_failure_mode_append_tool_answers_a_call_that_was_not_made() -> None:
    with bench(faults=[Fault(Kind.NO_CALL, turn=1)]) as b:
        transcript, _ = asyncio.run(b.drive(failure_mode=FailureMode.APPEND_TOOL))
    assert transcript.driver_events[0] == "tool_call_failure_append_tool"
    assert transcript.turns[1].messages[-1] == {"role": "tool", "tool_call_id": "none", "content": script.SENTINEL}


def test_failure_mode_rollback_drops_the_reply_and_asks_again() -> None:
    with bench(faults=[Fault(Kind.NO_CALL, turn=1)]) as b:
        transcript, _ = asyncio.run(b.drive(failure_mode=FailureMode.ROLLBACK, roles=(Role.TOOL, Role.USER)))
    assert transcript.driver_events[0] == "tool_call_failure_rollback"
    assert transcript.turns[1].messages == transcript.turns[0].messages
    assert transcript.turns[1].parent is None


def test_a_fourth_tool_step_in_a_row_without_a_call_fails_with_the_likely_causes() -> None:
    faults = [Fault(Kind.NO_CALL, times=None)]
    with (
        bench(faults=faults) as b,
        pytest.raises(VerificationError, match="Likely causes: the tool-call parser") as caught,
    ):
        asyncio.run(b.drive(failure_mode=FailureMode.ROLLBACK, roles=(Role.TOOL,), cycles=4))
    assert caught.value.message.startswith("4 tool_result steps in a row")


def test_a_call_in_between_starts_the_count_anew() -> None:
    """Each cycle has one step without a call (after a rolled-back report) and one with it: never four in a row."""
    with bench() as b:
        transcript, _ = asyncio.run(
            b.drive(failure_mode=FailureMode.ROLLBACK, roles=(Role.TOOL, Role.USER, Role.ASSISTANT), cycles=6)
        )
    assert transcript.driver_events.count("tool_call_failure_rollback") == 5


def test_a_schedule_that_cannot_be_had_is_refused_before_any_request() -> None:
    with bench() as b, pytest.raises(ConfigurationError, match="append_user"):
        asyncio.run(b.drive(failure_mode=FailureMode.APPEND_USER, roles=(Role.TOOL,)))
    assert b.engine.requests == []


@pytest.mark.parametrize("roles", [(Role.TOOL,), (Role.TOOL, Role.USER, Role.ASSISTANT), tuple(Role)])
def test_any_set_of_roles_can_be_driven(roles: tuple[Role, ...]) -> None:
    with bench() as b:
        transcript, view = asyncio.run(b.drive(roles=roles, cycles=1, failure_mode=FailureMode.APPEND_TOOL))
    assert len(view.records) == len(transcript.path)
