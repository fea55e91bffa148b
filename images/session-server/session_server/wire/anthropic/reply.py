"""The engine's checked reply as a message, in the official SDK's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage

from session_server.core.errors import AbortedError
from session_server.engine.reply import Generation
from session_server.tito.arguments import parse_arguments

Reason = Literal["end_turn", "max_tokens", "tool_use", "stop_sequence"]

_REASONS: dict[str, Reason] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def to_message(generation: Generation, *, stop_sequences: Sequence[str]) -> Message:
    """The message that the client gets.

    Raises:
        AbortedError: the engine gave the generation up; the dialect has no word for it, so it is asked again.
    """
    reason, sequence = _stop(generation, stop_sequences)
    return Message(
        id=generation.response_id or "",
        type="message",
        role="assistant",
        content=_content(generation.message),
        model=str(generation.body.get("model") or ""),
        stop_reason=reason,
        stop_sequence=sequence,
        usage=_usage(generation),
    )


def _content(message: dict[str, Any]) -> list[Any]:
    blocks: list[Any] = []
    if message.get("reasoning_content"):
        blocks.append(ThinkingBlock(type="thinking", thinking=message["reasoning_content"], signature=""))
    if message.get("content"):
        blocks.append(TextBlock(type="text", text=message["content"]))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        blocks.append(
            ToolUseBlock(
                type="tool_use",
                id=call["id"],
                name=function["name"],
                input=parse_arguments(function.get("arguments")),
            )
        )
    return blocks or [TextBlock(type="text", text="")]


def _stop(generation: Generation, stop_sequences: Sequence[str]) -> tuple[Reason, str | None]:
    finish = generation.finish_reason
    if finish == "abort":
        raise AbortedError("the engine aborted the generation; nothing was recorded, send the request again")
    matched = generation.body["choices"][0].get("matched_stop")
    if finish == "stop" and isinstance(matched, str) and matched in stop_sequences:
        return "stop_sequence", matched
    return _REASONS.get(finish or "stop", "end_turn"), None


def _usage(generation: Generation) -> Usage:
    usage = generation.body.get("usage")
    counts: dict[str, Any] = usage if isinstance(usage, dict) else {}
    meta = generation.body["choices"][0]["meta_info"]
    prompt = _count(counts.get("prompt_tokens"), _count(meta.get("prompt_tokens"), 0))
    details = counts.get("prompt_tokens_details")
    cached = min(prompt, _count(details.get("cached_tokens"), 0) if isinstance(details, dict) else 0)
    return Usage(
        input_tokens=prompt - cached,
        output_tokens=_count(counts.get("completion_tokens"), len(generation.output_ids)),
        cache_read_input_tokens=cached or None,
    )


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
