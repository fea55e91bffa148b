"""The strict stream reader: what it accepts, however it is cut, and each thing that it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents.records import Reply
from runner.agents.sse import Assembler
from runner.base.errors import VerificationError


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": more.pop("index", 0), "delta": delta, "finish_reason": finish}]
    body = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}
    return b"data: " + orjson.dumps(body) + b"\n\n"


def call(index: Any, **function: Any) -> dict[str, Any]:
    identity = function.pop("id", None)
    return {"index": index, "id": identity, "type": "function", "function": function}


DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
FULL = b"".join(
    [
        chunk({"role": "assistant", "content": ""}),
        b": keep-alive\n\n",
        chunk({"reasoning_content": "Well, "}),
        chunk({"reasoning_content": "ünïcode"}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({"tool_calls": [call(0, id="a", name="f", arguments="")]}),
        chunk({"tool_calls": [call(0, arguments='{"x":')]}),
        chunk({"tool_calls": [call(0, arguments="1}"), call(1, id="b", name="g", arguments="{}")]}),
        chunk({}, "tool_calls"),
        chunk(None, usage=USAGE),
        DONE,
    ]
)


def assembled(*parts: bytes) -> Reply:
    assembler = Assembler()
    for part in parts:
        assembler.feed(part)
    return assembler.reply()


def test_a_stream_of_many_deltas_becomes_one_reply() -> None:
    reply = assembled(FULL)
    assert reply.id == "r1"
    assert reply.finish_reason == "tool_calls"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 4)
    assert reply.message == {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "Well, ünïcode",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }


def test_one_chunk_with_everything_is_enough() -> None:
    delta = {"role": "assistant", "content": "Hi", "tool_calls": None}
    reply = assembled(chunk(delta, "stop", usage=USAGE), DONE)
    assert reply.message == {"role": "assistant", "content": "Hi"}


@given(st.lists(st.integers(1, len(FULL) - 1), max_size=40))
def test_where_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(FULL)]
    assert assembled(*(FULL[a:b] for a, b in pairwise(edges))) == assembled(FULL)


def test_bytes_one_by_one_and_carriage_returns_give_the_same() -> None:
    assert assembled(*(bytes([value]) for value in FULL)) == assembled(FULL)
    windows = FULL.replace(b"\n", b"\r\n")
    assert assembled(windows) == assembled(FULL)
    assert assembled(*(bytes([value]) for value in windows)) == assembled(FULL)


ROLE = chunk({"role": "assistant"})
STOP = chunk({}, "stop")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([ROLE, STOP], r"frame 2: the stream ends without \[DONE\]"),
        ([ROLE, DONE], "frame 2: .*before any finish reason"),
        ([ROLE, STOP, DONE, DONE], r"frame 4: a frame after \[DONE\]"),
        ([ROLE, STOP, DONE, b"data: {"], "ends inside a frame"),
        ([ROLE, STOP, DONE[:-1]], "ends inside a frame"),
        ([ROLE, STOP, chunk({"content": "x"}), DONE], "frame 3: a delta after the finish reason 'stop'"),
        ([ROLE, STOP, STOP, DONE], "frame 3: a delta after the finish reason"),
        ([chunk({"role": "assistant"}, index=1)], "frame 1: choice index is 1, expected 0"),
        ([chunk({"role": "assistant"}, index=None)], "choice index is None"),
        ([chunk({"content": "x"})], "frame 1: the first delta has no role"),
        ([ROLE, chunk({"role": "user"})], "the role changes"),
        ([chunk({"role": "user"}, "stop"), DONE], "the role is 'user'"),
        ([ROLE, chunk({"content": 3})], "frame 2: content is not text"),
        ([ROLE, chunk({"audio": "x"})], "unknown delta fields audio"),
        ([ROLE, chunk(None, usage=USAGE)], "without a choice before the finish reason"),
        ([ROLE, STOP, chunk(None)], "neither choice nor usage"),
        ([ROLE, STOP, chunk(None, usage=USAGE), chunk(None, usage=USAGE)], "usage comes twice"),
        ([ROLE, STOP, chunk(None, usage={"prompt_tokens": "3"})], "usage does not hold"),
        ([ROLE, chunk({}, "stop", id="r2")], "the id changes from 'r1' to 'r2'"),
        ([chunk({"role": "assistant"}, id="")], "the chunk has no id"),
        ([chunk({"role": "assistant"}, object="chat.completion")], "object is 'chat.completion'"),
        ([chunk({"role": "assistant"}, choices="x")], "list of at most one choice"),
        ([chunk({"role": "assistant"}, choices=[1, 2])], "list of at most one choice"),
        ([chunk({"role": "assistant"}, choices=[1])], "the choice is not an object"),
        ([chunk({"role": "assistant"}, choices=[{"index": 0}])], "no delta object"),
        ([b"data: {nope}\n\n"], "frame 1: not JSON"),
        ([b'data: {"id": NaN}\n\n'], "frame 1: not JSON"),
        ([b"data: [1]\n\n"], "not a JSON object"),
        ([b"event: x\ndata: {}\n\n"], "exactly one 'data:' line"),
        ([b"data: {}\ndata: {}\n\n"], "exactly one 'data:' line"),
        ([b"hello\n\n"], "exactly one 'data:' line"),
        ([ROLE, chunk({}, "")], "finish_reason is ''"),
        ([ROLE, chunk({"tool_calls": [call(1, id="a", name="f")]})], "tool call index is 1, expected 0"),
        ([ROLE, chunk({"tool_calls": [call(None, id="a", name="f")]})], "index is None, expected a number"),
        ([ROLE, chunk({"tool_calls": [call(True, id="a", name="f")]})], "index is True, expected a number"),
        ([ROLE, chunk({"tool_calls": [call(0, arguments="{}")]})], "begins without id and name"),
        ([ROLE, chunk({"tool_calls": [call(0, id="a", name="f"), call(1, id="a", name="f")]})], "repeats the id"),
        (
            [
                ROLE,
                chunk({"tool_calls": [call(0, id="a", name="f"), call(1, id="b", name="f")]}),
                chunk({"tool_calls": [call(0, arguments="x")]}),
            ],
            "frame 3: tool call index is 0, expected 1 or 2",
        ),
        ([ROLE, chunk({"tool_calls": [call(0, id="a", name="f"), call(0, id="b")]})], "changes its id"),
        ([ROLE, chunk({"tool_calls": [call(0, id="a", name="f"), call(0, name="g")]})], "changes its name"),
        ([ROLE, chunk({"tool_calls": [call(0, id="a", name="f", arguments={})]})], "arguments are not text"),
        ([ROLE, chunk({"tool_calls": [{"index": 0, "id": "a"}]})], "no function object"),
        ([ROLE, chunk({"tool_calls": [1]})], "a tool call is not an object"),
        ([ROLE, chunk({"tool_calls": {}})], "tool_calls is not a list"),
        (
            [ROLE, chunk({"tool_calls": [{**call(0, id="a", name="f"), "type": "custom"}]})],
            "has type 'custom'",
        ),
    ],
)
def test_a_violation_is_refused_and_names_the_frame(parts: list[bytes], says: str) -> None:
    with pytest.raises(VerificationError, match=says) as caught:
        assembled(*parts)
    assert caught.value.stage == "sse"
    assert caught.value.message.startswith("frame ")
