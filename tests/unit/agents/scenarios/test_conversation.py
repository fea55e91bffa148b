"""Small steps on both wires: what is sent, what is asked for again, what must be refused, and where a turn hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents import script
from runner.agents.scenarios.conversation import Call, Choice, Conversation, parent, unmarked
from runner.agents.scenarios.wires import converse
from runner.agents.transcript import Transcript, TurnLog
from runner.base.errors import ModelIncompleteError, VerificationError
from runner.base.terms import Lane
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import Bench, bench
from tests.unit.agents.scenarios.stage import planned, scene

V2, MESSAGES = Lane.V2_OPENAI, Lane.V2_ANTHROPIC
BOTH = pytest.mark.parametrize("lane", [V2, MESSAGES])


def talk(
    lane: Lane, say: Callable[[Conversation], Awaitable[Any]], *, faults: tuple[Fault, ...] = ()
) -> tuple[Bench, Conversation]:
    """Let `say` use a conversation of this lane."""
    cell = planned("baseline", lane)
    sample = cell.samples[0].model_copy(update={"stream": False})
    transcript = Transcript(lane.wire, False, sample.seed)
    with bench(lane.server, faults) as b:

        async def run() -> Conversation:
            conversation = converse(await scene(b, cell, sample, transcript))
            await say(conversation)
            return conversation

        return b, asyncio.run(run())


@BOTH
def test_a_call_is_forced_answered_and_told(lane: Lane) -> None:
    async def say(c: Conversation) -> None:
        c.user(script.USER_FIRST)
        (call,) = c.calls_of(await c.turn(Choice.CALL))
        assert (call.name, call.arguments) == (script.TOOL_NAME, {"location": "Beijing"})
        c.results([(call.id, script.TOOL_RESULTS[0])])
        await c.turn(Choice.TEXT)

    b, conversation = talk(lane, say)
    turns = conversation.scene.transcript.turns
    assert [(turn.action, turn.parent) for turn in turns] == [("forced_tool", None), ("text", 1)]
    assert [request["tool_choice"] for request in b.engine.requests] == [
        {"type": "function", "function": {"name": "get_weather"}},
        "none",
    ]
    assert [m["role"] for m in b.engine.requests[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert len(conversation.history) == 5


@BOTH
def test_what_the_client_authored_reaches_the_engine_as_two_calls_and_two_results(lane: Lane) -> None:
    calls = [Call("call_a", script.TOOL_NAME, {"location": "Beijing"}), Call("call_b", script.TOOL_NAME, {})]

    async def say(c: Conversation) -> None:
        c.user(script.USER_FIRST)
        c.authored("", calls)
        c.results([(call.id, script.TOOL_RESULTS[0]) for call in calls])
        assert c.calls_of(c.history[2]) == calls
        await c.turn(Choice.TEXT)

    b, _ = talk(lane, say)
    _, _, assistant, *results = b.engine.requests[0]["messages"]
    assert [call["id"] for call in assistant["tool_calls"]] == ["call_a", "call_b"]
    assert [message["tool_call_id"] for message in results] == ["call_a", "call_b"]


@BOTH
def test_a_reply_of_the_wrong_kind_is_asked_for_again_and_a_model_that_never_ends_is_told_apart(lane: Lane) -> None:
    async def call(c: Conversation) -> None:
        c.user(script.USER_FIRST)
        await c.turn(Choice.CALL)

    _, conversation = talk(lane, call, faults=(Fault(Kind.NO_CALL, turn=1),))
    assert conversation.scene.transcript.retries == {"no_forced_call": 1}
    with pytest.raises(VerificationError, match=r"turn 1: exhausted \d retries after no_forced_call") as wrong:
        talk(lane, call, faults=(Fault(Kind.NO_CALL, times=None),))
    assert not isinstance(wrong.value, ModelIncompleteError)
    with pytest.raises(ModelIncompleteError, match=r"turn 1: exhausted \d retries"):
        talk(lane, call, faults=(Fault(Kind.TRUNCATE, times=None),))


@BOTH
def test_a_refusal_must_come_with_its_status_and_its_reason(lane: Lane) -> None:
    async def refused(c: Conversation, status: int, saying: str) -> None:
        c.user([{"type": "image", "source": {}}])
        await c.refused(status, saying)
        assert not c.scene.transcript.turns

    talk(lane, lambda c: refused(c, 400, "image"))
    with pytest.raises(VerificationError, match="answered 400, expected 409"):
        talk(lane, lambda c: refused(c, 409, "image"))
    with pytest.raises(VerificationError, match="expected 400 with 'too many'"):
        talk(lane, lambda c: refused(c, 400, "too many"))


@BOTH
def test_a_request_that_is_answered_where_a_refusal_must_come_fails(lane: Lane) -> None:
    async def say(c: Conversation) -> None:
        c.user(script.USER_FIRST)
        await c.refused(400, "")

    with pytest.raises(VerificationError, match="answered 200, expected a refusal"):
        talk(lane, say)


def test_only_an_assistant_message_can_be_taken_back() -> None:
    async def say(c: Conversation) -> None:
        c.user(script.USER_FIRST)
        with pytest.raises(ValueError, match="only an assistant message"):
            c.drop_reply()
        await c.turn(Choice.TEXT)
        c.drop_reply()
        await c.turn(Choice.TEXT)

    _, conversation = talk(V2, say)
    assert [turn.parent for turn in conversation.scene.transcript.turns] == [None, None]


def log(turn: int, messages: list[str], reply: str) -> TurnLog:
    told: list[Any] = [{"role": "user", "content": text} for text in messages]
    return TurnLog(turn, "text", None, told, {"role": "assistant", "content": reply}, f"r{turn}", "stop", 1, 1, 0.1)


def history(*texts: str) -> list[Any]:
    roles = ["user", "assistant"]
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


def test_a_turn_hangs_under_the_deepest_reply_that_is_repeated_and_of_equal_ones_under_the_latest() -> None:
    first, again, deeper = log(1, ["a"], "A"), log(2, ["a"], "A"), TurnLog(
        3, "text", 1, history("a", "A", "b"), {"role": "assistant", "content": "B"}, "r3", "stop", 1, 1, 0.1
    )  # fmt: skip
    assert parent(history("a", "A", "c"), [first, again]) == 2
    assert parent(history("a", "A", "b", "B", "c"), [deeper, first, again]) == 3
    assert parent(history("a", "A", "b"), [deeper]) is None
    assert parent(history("x", "A", "c"), [first, again, deeper]) is None
    assert parent(history("a"), [first]) is None


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=7), st.data())
def test_a_changed_message_never_leaves_a_turn_under_what_came_after_it(texts: list[str], data: Any) -> None:
    whole = history(*texts)
    turns = [
        TurnLog(at, "text", None, whole[: 2 * at - 1], whole[2 * at - 1], f"r{at}", "stop", 1, 1, 0.1)
        for at in range(1, len(whole) // 2 + 1)
    ]
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = [*whole[:place], {**whole[place], "content": "other"}, *whole[place + 1 :]]
    found = parent(changed, turns)
    assert parent(whole, turns) == (len(turns) or None)
    assert found == (place // 2 or None if place // 2 <= len(turns) else len(turns))


def test_marks_for_caching_take_no_part() -> None:
    block = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    marked: list[Any] = [{"role": "user", "content": [block]}]
    plain: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    reply: Any = {"role": "assistant", "content": "A"}
    turn = TurnLog(1, "text", None, marked, reply, "r", "stop", 1, 1, 0.1)
    assert parent([*plain, reply], [turn]) == 1
    assert unmarked(marked) == plain
