"""The Anthropic conversation as chat messages: what the server's records must hold of it.

Written from the contract, not from the server's conversion: thinking is reasoning, text is content, a tool use is a
tool call, a tool result is a tool message in the place where it stood.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject
from runner.agents.transcript import TurnLog

FINISH: Final = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
"""Stop reasons of the Anthropic wire as finish reasons."""


def canonical(turn: TurnLog) -> TurnLog:
    """The same turn in the form of the records: `messages`, `reply` and `finish_reason` are converted."""
    messages = [converted for message in turn.messages for converted in _message(message)]
    return replace(
        turn,
        messages=messages,
        reply=_assistant(_blocks(turn.reply)),
        finish_reason=FINISH.get(turn.finish_reason, turn.finish_reason),
    )


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _message(message: JsonObject) -> list[JsonObject]:
    role, blocks = message.get("role"), _blocks(message)
    if role == "assistant":
        return [_assistant(blocks)]
    converted: list[JsonObject] = []
    texts: list[str] = []

    def flush() -> None:
        if texts:
            converted.append({"role": role, "content": _joined(role, texts)})
            texts.clear()

    for block in blocks:
        if block.get("type") == "tool_result":
            flush()
            content = "".join(_texts(_blocks(block)))
            converted.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content})
        else:
            texts += _texts([block])
    flush()
    return converted


def _assistant(blocks: Sequence[JsonObject]) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": "".join(_texts(blocks))}
    thinking = [str(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    if thinking:
        message["reasoning_content"] = "\n".join(thinking)
    calls: list[JsonValue] = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": json.dumps(block.get("input"), ensure_ascii=False)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def _joined(role: JsonValue, texts: Sequence[str]) -> JsonValue:
    """System blocks are one text of as many lines; a user's stay parts, a single one is its text."""
    if role == "system" or len(texts) == 1:
        return "\n".join(texts)
    return [{"type": "text", "text": text} for text in texts]


def _texts(blocks: Sequence[JsonObject]) -> list[str]:
    return [str(block.get("text")) for block in blocks if block.get("type") == "text"]
