"""What a chat completion must look like before it may become history, on either wire mode.

These are the checks without which an agent cannot go on. They do not look at tokens.
"""

from __future__ import annotations

from typing import Final

import orjson
from pydantic import JsonValue

from runner.agents import script
from runner.agents.records import JsonObject, Reply
from runner.base.errors import ModelIncompleteError, VerificationError

STAGE: Final = "reply"
LENGTH: Final = "length"
ABORT: Final = "abort"
EMPTY: Final = "empty"
_HISTORY_KEYS: Final = ("role", "content", "reasoning_content", "tool_calls")


def unfinished(reply: Reply) -> str | None:
    """The cause for which this reply has to be asked for again (`length`, `abort`, `empty`), or None."""
    if reply.finish_reason in (LENGTH, ABORT):
        return reply.finish_reason
    content = reply.message.get("content")
    if not reply.message.get("tool_calls") and not (isinstance(content, str) and content.strip()):
        return EMPTY
    return None


def exhausted(where: str, retries: int, cause: str) -> VerificationError:
    """The error for a turn that was asked for again `retries` times in vain.

    A model that keeps stopping early is not a fault of the session server; an engine that keeps aborting is a failure.
    """
    what = "an empty answer" if cause == EMPTY else f"finish_reason='{cause}'"
    message = f"{where}: exhausted {retries} retries after {what}"
    return VerificationError(STAGE, message) if cause == ABORT else ModelIncompleteError(STAGE, message)


def checked_message(reply: Reply) -> JsonObject:
    """The assistant message as it goes into the history: role, content, reasoning and tool calls, unchanged.

    Raises VerificationError when the role, the finish reason or a tool call is not what the contract allows.
    """
    message = reply.message
    if message.get("role") != "assistant":
        raise VerificationError(STAGE, f"reply {reply.id}: role is {message.get('role')!r}, expected 'assistant'")
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise VerificationError(STAGE, f"reply {reply.id}: tool_calls is not a list: {shown(message)}")
    expected = "tool_calls" if calls else "stop"
    if reply.finish_reason != expected:
        raise VerificationError(
            STAGE,
            f"reply {reply.id}: finish_reason is {reply.finish_reason!r} with {len(calls or [])} tool calls, "
            f"expected {expected!r}",
        )
    seen: set[str] = set()
    for position, call in enumerate(calls or []):
        seen.add(_checked_call(reply.id, position, call, seen))
    return as_history(message)


def as_history(message: JsonObject) -> JsonObject:
    """The fields of an assistant message that are sent back, unchanged and unchecked."""
    return {key: message.get(key) for key in _HISTORY_KEYS if message.get(key) is not None or key == "content"}


def _checked_call(reply_id: str, position: int, call: JsonValue, seen: set[str]) -> str:
    where = f"reply {reply_id}, tool call {position}"
    if not isinstance(call, dict):
        raise VerificationError(STAGE, f"{where}: not an object")
    identity, function = call.get("id"), call.get("function")
    if not isinstance(identity, str) or not identity:
        raise VerificationError(STAGE, f"{where}: has no id")
    if identity in seen:
        raise VerificationError(STAGE, f"{where}: repeats the id {identity!r}")
    if call.get("index") not in (None, position):
        raise VerificationError(STAGE, f"{where}: index is {call.get('index')!r}, expected {position}")
    if not isinstance(function, dict) or function.get("name") != script.TOOL_NAME:
        name = function.get("name") if isinstance(function, dict) else None
        raise VerificationError(STAGE, f"{where}: the name is {name!r}, declared is only {script.TOOL_NAME!r}")
    arguments = function.get("arguments")
    try:
        orjson.loads(arguments if isinstance(arguments, str) else b"")
    except orjson.JSONDecodeError as error:
        raise VerificationError(STAGE, f"{where}: arguments are not a JSON text ({error}): {arguments!r}") from error
    return identity


def shown(message: JsonObject, limit: int = 300) -> str:
    """A message in an error text."""
    text = orjson.dumps(message).decode()
    return text if len(text) <= limit else text[:limit] + "..."
