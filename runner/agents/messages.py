"""Replies of the Anthropic wire: what a message must look like before anything else is asked of it.

Both wire modes end here, as one `Reply`: its message is `{"role": "assistant", "content": [blocks]}`, the blocks
exactly as they came, because they are sent back unchanged.
"""

from __future__ import annotations

from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from runner.agents.records import JsonObject, Reply, Usage, excerpt
from runner.base.errors import VerificationError

STAGE = "reply"


class MessageUsage(BaseModel):
    """Token counts of the Anthropic wire: what came from the cache is not part of `input_tokens`."""

    model_config = ConfigDict(extra="ignore", strict=True)

    input_tokens: Annotated[int, Field(ge=0)]
    output_tokens: Annotated[int, Field(ge=0)]
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt, cached or not."""
        return self.input_tokens + (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    id: Annotated[str, Field(min_length=1)]
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[JsonObject]
    stop_reason: Annotated[str, Field(min_length=1)]
    usage: MessageUsage


def read_message(body: bytes) -> Reply:
    """A reply that was not streamed. Raises VerificationError that names what is missing or wrong."""
    try:
        return message_reply(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise VerificationError(STAGE, f"the reply to POST messages is not JSON ({error}): {excerpt(body)}") from error


def message_reply(document: JsonValue) -> Reply:
    """One whole message. Raises VerificationError that names what is missing or wrong."""
    try:
        message = _Message.model_validate(document)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'body'}: {item['msg']}" for item in error.errors()[:5]
        )
        raise VerificationError(STAGE, f"the reply to POST messages is no message: {wrong}") from error
    for position, block in enumerate(message.content):
        _check_block(position, block)
    blocks: list[JsonValue] = list(message.content)
    usage = Usage(prompt_tokens=message.usage.prompt_tokens, completion_tokens=message.usage.output_tokens)
    return Reply(message.id, {"role": "assistant", "content": blocks}, message.stop_reason, usage, None)


_TEXTS = {"text": "text", "thinking": "thinking"}


def _check_block(position: int, block: JsonObject) -> None:
    kind = block.get("type")
    where = f"the reply to POST messages: content block {position}"
    if isinstance(kind, str) and kind in _TEXTS:
        if not isinstance(block.get(_TEXTS[kind]), str):
            raise VerificationError(STAGE, f"{where} ({kind}) has no {_TEXTS[kind]}")
    elif kind == "tool_use":
        for key in ("id", "name"):
            if not isinstance(block.get(key), str) or not block[key]:
                raise VerificationError(STAGE, f"{where} (tool_use) has no {key}")
        if "input" not in block:
            raise VerificationError(STAGE, f"{where} (tool_use) has no input")
    else:
        raise VerificationError(STAGE, f"{where} is of type {kind!r}, which nobody asked for")


def blocks_of(message: JsonObject, kind: str) -> list[JsonObject]:
    """The blocks of one type in a message's content, in order."""
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]
