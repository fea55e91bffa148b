"""When two assistant messages count as the same: the matchers of the session contract, written independently.

`strict` compares role, content, reasoning and tool calls, argument texts byte for byte. `loose_tool_call` compares
argument texts as JSON objects, because the Anthropic conversion writes them anew. Other keys take no part.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

from pydantic import JsonValue

from runner.agents.records import JsonObject

Matcher = Callable[[JsonObject, JsonObject], bool]


def strict(stored: JsonObject, replayed: JsonObject) -> bool:
    """Equal role, content, reasoning_content and tool_calls; None, "" and [] count as the same."""
    return _texts_equal(stored, replayed) and _calls(stored) == _calls(replayed)


def loose_tool_call(stored: JsonObject, replayed: JsonObject) -> bool:
    """As `strict`, but arguments are compared as JSON objects: key order and white space don't matter."""
    if not _texts_equal(stored, replayed):
        return False
    left, right = _calls(stored), _calls(replayed)
    if not isinstance(left, list) or not isinstance(right, list):
        return left == right
    return len(left) == len(right) and all(_same_call(a, b) for a, b in zip(left, right, strict=True))


def differing(stored: JsonObject, replayed: JsonObject) -> list[str]:
    """The fields in which `strict` sees a difference, for the message."""
    fields = [key for key in ("role", "content", "reasoning_content") if _plain(stored, key) != _plain(replayed, key)]
    return fields if _calls(stored) == _calls(replayed) else [*fields, "tool_calls"]


def _texts_equal(stored: JsonObject, replayed: JsonObject) -> bool:
    return all(_plain(stored, key) == _plain(replayed, key) for key in ("role", "content", "reasoning_content"))


def _plain(message: JsonObject, key: str) -> JsonValue:
    value = message.get(key)
    return None if value in ("", []) else value


def _calls(message: JsonObject) -> JsonValue:
    calls = _plain(message, "tool_calls")
    if not isinstance(calls, list):
        return calls
    return [
        {key: value for key, value in call.items() if key != "index"} if isinstance(call, dict) else call
        for call in calls
    ]


def _same_call(left: JsonValue, right: JsonValue) -> bool:
    if not isinstance(left, dict) or not isinstance(right, dict) or left.keys() != right.keys():
        return left == right
    if any(left[key] != right[key] for key in left if key != "function"):
        return False
    a, b = left.get("function"), right.get("function")
    if not isinstance(a, dict) or not isinstance(b, dict) or a.keys() != b.keys():
        return a == b
    if any(a[key] != b[key] for key in a if key != "arguments"):
        return False
    return _same_arguments(a.get("arguments"), b.get("arguments"))


def _same_arguments(left: JsonValue, right: JsonValue) -> bool:
    a, b = _as_object(left), _as_object(right)
    if a is None or b is None:
        return type(left) is type(right) and left == right
    return typed(a) == typed(b)


def _as_object(arguments: JsonValue) -> dict[str, object] | None:
    if arguments in (None, ""):
        return {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_no_duplicates)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON value")


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def typed(value: object) -> object:
    """A JSON value for comparing: True and 1, and 1 and "1", differ, and 1 and 1.0 do not."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value))
    return ("text", value)
