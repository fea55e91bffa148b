"""A finished message as the sequence of events of a stream.

The generation is recorded before the first event goes out, so a stream never breaks off in the middle: every block is
opened, filled by at most one delta and closed, in order, and the stop reason comes once, after the last block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anthropic.types import (
    InputJSONDelta,
    Message,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RawMessageStreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from anthropic.types.raw_message_delta_event import Delta
from pydantic import BaseModel


def dump(value: BaseModel) -> bytes:
    """Compact JSON without the fields that have no value."""
    return value.model_dump_json(exclude_none=True).encode()


def stream(message: Message, *, model: str, arguments: Sequence[str]) -> bytes:
    """The whole stream. `model` is the request's; `arguments` are the calls' argument strings as sampled, in order."""
    return b"".join(
        b"event: " + event.type.encode() + b"\ndata: " + dump(event) + b"\n\n"
        for event in _events(message, model, arguments)
    )


def _events(message: Message, model: str, arguments: Sequence[str]) -> Iterator[RawMessageStreamEvent]:
    usage = message.usage.model_copy(update={"output_tokens": 0})
    opening: dict[str, Any] = {
        "content": [],
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield RawMessageStartEvent(type="message_start", message=message.model_copy(update=opening))
    sampled = iter(arguments)
    for index, block in enumerate(message.content):
        written = next(sampled) if isinstance(block, ToolUseBlock) else ""
        yield from _block_events(index, block, written)
    yield RawMessageDeltaEvent(
        type="message_delta",
        delta=Delta(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence),
        usage=MessageDeltaUsage(output_tokens=message.usage.output_tokens),
    )
    yield RawMessageStopEvent(type="message_stop")


def _block_events(index: int, block: object, arguments: str) -> Iterator[RawMessageStreamEvent]:
    start: TextBlock | ThinkingBlock | ToolUseBlock
    delta: TextDelta | ThinkingDelta | InputJSONDelta | None
    if isinstance(block, ThinkingBlock):
        start = block.model_copy(update={"thinking": ""})
        delta = ThinkingDelta(type="thinking_delta", thinking=block.thinking)
    elif isinstance(block, ToolUseBlock):
        start = block.model_copy(update={"input": {}})
        delta = InputJSONDelta(type="input_json_delta", partial_json=arguments) if arguments else None
    elif isinstance(block, TextBlock):
        start = block.model_copy(update={"text": ""})
        delta = TextDelta(type="text_delta", text=block.text) if block.text else None
    else:
        raise TypeError(f"a reply has no block of type {type(block).__name__}")
    yield RawContentBlockStartEvent(type="content_block_start", index=index, content_block=start)
    if delta is not None:
        yield RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
    yield RawContentBlockStopEvent(type="content_block_stop", index=index)
