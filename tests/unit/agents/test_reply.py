"""What a reply must look like before it may become history."""

from __future__ import annotations

from typing import Any

import pytest

from runner.agents.records import Reply
from runner.agents.reply import checked_message, exhausted, unfinished
from runner.base.errors import ModelIncompleteError, VerificationError

CALL: dict[str, Any] = {
    "id": "c1",
    "index": 0,
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'},
}


def reply(finish: str = "stop", **message: Any) -> Reply:
    return Reply("r1", {"role": "assistant", "content": "Hi", **message}, finish, None, None)


def test_a_good_reply_becomes_history_unchanged_and_without_other_keys() -> None:
    calls = [CALL, {**CALL, "id": "c2", "index": 1}]
    message = checked_message(reply("tool_calls", content=None, tool_calls=calls, refusal=None, reasoning_content="Hm"))
    assert message == {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": calls}
    assert checked_message(reply(reasoning_content=None)) == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize(
    ("message", "finish", "says"),
    [
        ({"role": "user"}, "stop", "role is 'user'"),
        ({"tool_calls": [CALL]}, "stop", "finish_reason is 'stop' with 1 tool calls, expected 'tool_calls'"),
        ({}, "tool_calls", "expected 'stop'"),
        ({}, "content_filter", "expected 'stop'"),
        ({"tool_calls": "x"}, "tool_calls", "not a list"),
        ({"tool_calls": ["x"]}, "tool_calls", "not an object"),
        ({"tool_calls": [{**CALL, "id": ""}]}, "tool_calls", "has no id"),
        ({"tool_calls": [CALL, {**CALL, "index": 1}]}, "tool_calls", "repeats the id 'c1'"),
        ({"tool_calls": [{**CALL, "index": 1}]}, "tool_calls", "index is 1, expected 0"),
        (
            {"tool_calls": [{**CALL, "function": {"name": "get_<|im_end|>", "arguments": "{}"}}]},
            "tool_calls",
            "name is",
        ),
        ({"tool_calls": [{**CALL, "function": {"name": "get_weather", "arguments": "{NaN"}}]}, "tool_calls", "JSON"),
        (
            {"tool_calls": [{**CALL, "function": {"name": "get_weather", "arguments": '{"x": NaN}'}}]},
            "tool_calls",
            "JSON",
        ),
        ({"tool_calls": [{**CALL, "function": {"name": "get_weather", "arguments": {}}}]}, "tool_calls", "JSON"),
    ],
)
def test_a_reply_of_another_shape_fails(message: dict[str, Any], finish: str, says: str) -> None:
    with pytest.raises(VerificationError, match=says) as caught:
        checked_message(reply(finish, **message))
    assert caught.value.stage == "reply"


@pytest.mark.parametrize(
    ("message", "finish", "cause"),
    [
        ({}, "stop", None),
        ({"content": "", "tool_calls": [CALL]}, "tool_calls", None),
        ({}, "length", "length"),
        ({"tool_calls": [CALL]}, "length", "length"),
        ({}, "abort", "abort"),
        ({"content": ""}, "stop", "empty"),
        ({"content": None}, "stop", "empty"),
        ({"content": " \n", "reasoning_content": "Hm"}, "stop", "empty"),
        ({"content": "", "tool_calls": []}, "stop", "empty"),
    ],
)
def test_unfinished_replies_are_told_by_cause(message: dict[str, Any], finish: str, cause: str | None) -> None:
    assert unfinished(reply(finish, **message)) == cause


def test_a_model_that_stops_early_is_incomplete_and_an_aborting_engine_is_a_failure() -> None:
    assert isinstance(exhausted("turn 1", 2, "length"), ModelIncompleteError)
    assert exhausted("turn 1", 2, "length").message == "turn 1: exhausted 2 retries after finish_reason='length'"
    assert isinstance(exhausted("turn 1", 2, "empty"), ModelIncompleteError)
    assert not isinstance(exhausted("turn 1", 2, "abort"), ModelIncompleteError)
