"""The strict reader of Anthropic streams, and what a whole message must look like."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents.messages import read_message
from runner.agents.records import Reply
from runner.agents.stream import MessageAssembler
from runner.base.errors import VerificationError


def event(kind: str, name: str | None = None, **data: Any) -> bytes:
    return b"event: " + (name or kind).encode() + b"\ndata: " + orjson.dumps({"type": kind, **data}) + b"\n\n"


def start(**more: Any) -> bytes:
    message = {
        "id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 0, "cache_read_input_tokens": 4},
    }  # fmt: skip
    return event("message_start", message={**message, **more})


def opened(index: Any, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: Any, kind: str, **more: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **more})


def closed(index: Any) -> bytes:
    return event("content_block_stop", index=index)


THINKING = [
    opened(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="Hm, "),
    delta(0, "thinking_delta", thinking="ü"),
    delta(0, "signature_delta", signature="sig"),
    closed(0),
]
TEXT = [opened(1, type="text", text=""), delta(1, "text_delta", text="Hi"), closed(1)]
USE = [
    opened(2, type="tool_use", id="c", name="f", input={}),
    delta(2, "input_json_delta", partial_json='{"x":'),
    delta(2, "input_json_delta", partial_json="1}"),
    closed(2),
]
END = [event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 9})]
STOP = [event("message_stop")]
FULL = b"".join([start(), event("ping"), *THINKING, *TEXT, *USE, *END, *STOP])


def assembled(*parts: bytes) -> Reply:
    assembler = MessageAssembler()
    for part in parts:
        assembler.feed(part)
    return assembler.reply()


def test_a_stream_becomes_the_message_that_would_have_come_whole() -> None:
    reply = assembled(FULL)
    assert reply.id == "m1"
    assert reply.finish_reason == "tool_use"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 9)
    assert reply.message == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm, ü", "signature": "sig"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}},
        ],
    }


@given(st.lists(st.integers(1, len(FULL) - 1), max_size=40))
def test_where_the_bytes_are_cut_does_not_matter(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(FULL)]
    assert assembled(*(FULL[a:b] for a, b in pairwise(edges))) == assembled(FULL)


def test_a_call_without_deltas_has_an_empty_object() -> None:
    parts = [start(), opened(0, type="tool_use", id="c", name="f", input={}), closed(0), *END, *STOP]
    assert assembled(*parts).message["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]


TEXT0 = [opened(0, type="text", text=""), delta(0, "text_delta", text="Hi"), closed(0)]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([*TEXT0], "message_start comes once, and first"),
        ([start(), start()], "message_start comes once, and first"),
        ([start(), *TEXT0, *END], "frame 5: the stream ends without message_stop"),
        ([start(), *TEXT0, *STOP], "message_stop before message_delta"),
        ([start(), *TEXT0, *END, *STOP, *STOP], "a frame after message_stop"),
        ([start(), *TEXT0, *END, *STOP, b"event: x"], "ends inside a frame"),
        ([start(), *TEXT0, *END, *END], "message_delta comes twice"),
        ([start(), *TEXT0, *END, opened(1, type="text", text="")], "a block after message_delta"),
        ([start(), opened(1, type="text", text="")], "block index is 1, expected 0"),
        ([start(), opened(False, type="text", text="")], "block index is False, expected 0"),
        ([start(), TEXT0[0], opened(1, type="text", text="")], "a block is opened while block 0 is open"),
        ([start(), TEXT0[0], delta(1, "text_delta", text="x")], "block index is 1, expected 0"),
        ([start(), TEXT0[0], delta(0, "thinking_delta", thinking="x")], "a thinking_delta for a block of type 'text'"),
        ([start(), TEXT0[0], delta(0, "input_json_delta", partial_json="{}")], "for a block of type 'text'"),
        ([start(), TEXT0[0], delta(0, "citations_delta")], "a delta of type 'citations_delta'"),
        ([start(), TEXT0[0], delta(0, "text_delta")], "a text_delta without text"),
        ([start(), TEXT0[0], closed(3)], "block index is 3, expected 0"),
        ([start(), TEXT0[0], *END], "message_delta while block 0 is open"),
        ([start(), delta(0, "text_delta", text="x")], "a delta while no block is open"),
        ([start(), closed(0)], "content_block_stop while no block is open"),
        ([start(), opened(0, type="text", text="x")], "opened with content in it"),
        ([start(), opened(0, type="tool_use", id="c", name="f", input={"x": 1})], "opened with content in it"),
        ([start(), event("content_block_start", index=0)], "has no block"),
        ([start(content=[{"type": "text", "text": "x"}])], "has content or a stop reason already"),
        ([start(stop_reason="end_turn")], "has content or a stop reason already"),
        ([start(usage=None)], "has no usage"),
        ([event("message_start")], "has no message"),
        ([start(), event("message_delta", delta={})], "without delta and usage"),
        ([start(), event("error", error={})], "the stream reports an error"),
        ([start(), event("novelty")], "an event 'novelty' that the grammar does not have"),
        ([event("ping", "pong")], "the data is not of the event's type 'pong'"),
        ([b"data: {}\n\n"], "expected one 'event:' line and one 'data:' line"),
        ([b"event: ping\ndata: {\n\n"], "not JSON"),
        ([b"event: ping\ndata: [1]\n\n"], "not of the event's type"),
        (
            [
                start(),
                USE[0].replace(b'"index":2', b'"index":0'),
                delta(0, "input_json_delta", partial_json="{"),
                closed(0),
            ],
            "the input of block 0 is not JSON",
        ),
    ],
)
def test_a_violation_is_refused_and_names_the_frame(parts: list[bytes], says: str) -> None:
    with pytest.raises(VerificationError, match=says) as caught:
        assembled(*parts)
    assert caught.value.stage == "sse"
    assert caught.value.message.startswith("frame ")


WHOLE: dict[str, Any] = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def test_a_whole_message_keeps_its_blocks_as_they_came() -> None:
    block = {"type": "text", "text": "Hi", "citations": None}
    reply = read_message(orjson.dumps({**WHOLE, "content": [block]}))
    assert reply.message == {"role": "assistant", "content": [block]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"type": "completion"}, "type:"),
        ({"role": "user"}, "role:"),
        ({"id": ""}, "id:"),
        ({"stop_reason": None}, "stop_reason:"),
        ({"content": "Hi"}, "content:"),
        ({"usage": {"input_tokens": 3}}, "output_tokens"),
        ({"usage": {"input_tokens": "3", "output_tokens": 1}}, "input_tokens"),
        ({"content": [{"type": "image"}]}, "block 0 is of type 'image', which nobody asked for"),
        ({"content": [{"type": "text"}]}, r"block 0 \(text\) has no text"),
        ({"content": [{"type": "thinking"}]}, "has no thinking"),
        ({"content": [{"type": "tool_use", "id": "", "name": "f", "input": {}}]}, "has no id"),
        ({"content": [{"type": "tool_use", "id": "c", "name": "f"}]}, "has no input"),
    ],
)
def test_a_message_of_another_shape_fails(change: dict[str, Any], says: str) -> None:
    with pytest.raises(VerificationError, match=says):
        read_message(orjson.dumps({**WHOLE, **change}))


def test_a_message_that_is_no_json_fails() -> None:
    with pytest.raises(VerificationError, match="not JSON"):
        read_message(b"{")
