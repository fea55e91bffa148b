"""Tool-call arguments in the two forms that templates want.

The wire carries them as a JSON string; Jinja templates iterate over an object. Absent and empty arguments are the empty
object. Content that is absent renders as an empty string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from session_server.core.turn import Message

DEEPEST = 128
"""Objects and lists within each other in arguments: what renders and writes them recurses, and not without end."""


class NotAnObjectError(ValueError):
    """Tool-call arguments that are not a JSON object."""


def parse_arguments(arguments: object) -> dict[str, Any]:
    """The object that `arguments` (string, object or None) spells.

    Raises:
        NotAnObjectError: it is not strict JSON, it is JSON of another kind, or it has what no text or number can be.
    """
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, str):
        text = arguments
        try:
            arguments = json.loads(text, parse_constant=_refuse, parse_float=_finite)
            if "\\u" in text:
                # half of a character can be escaped, but neither rendered nor sent on
                json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise NotAnObjectError("not valid JSON: a string has half of a surrogate pair") from error
        except (ValueError, RecursionError) as error:
            raise NotAnObjectError(f"not valid JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise NotAnObjectError(f"JSON of type {type(arguments).__name__}, expected an object")
    if _deeper(arguments, DEEPEST):
        raise NotAnObjectError(f"nested more than {DEEPEST} deep")
    return arguments


def _deeper(value: object, most: int) -> bool:
    """Whether containers stand more than `most` deep in each other."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return any(isinstance(inner, (dict, list)) for inner in level)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is larger than a number can be")
    return value


def with_object_arguments(messages: Iterable[Message]) -> list[Message]:
    """`messages` as Jinja templates want them; messages that need no change are passed through, none is modified."""
    return [_with_object_arguments(message) for message in messages]


def _with_object_arguments(message: Message) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message if message.get("content") is not None else {**message, "content": ""}
    parsed = []
    for call in calls:
        function = call["function"]
        parsed.append({**call, "function": {**function, "arguments": parse_arguments(function.get("arguments"))}})
    return {**message, "content": message.get("content") or "", "tool_calls": parsed}
