"""Whether a replayed message is the stored one.

Clients replay history after their own parsing, so equality has degrees: `strict` for clients that keep everything,
`loose_tool_call` where arguments were parsed and dumped again, `role_content_only` for the rest. The stored spelling
wins in any case: matching decides what is *kept*, never what it is replaced with.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from session_server.core.turn import Message

Matcher: TypeAlias = Callable[[Message, Message], bool]
"""(stored, replayed) -> whether they are the same message."""


Reader: TypeAlias = Callable[[object], dict[str, Any] | None]
"""Tool arguments -> the object that they spell; None where they spell none."""


class MatcherError(Exception):
    """A custom matcher raised, or returned something that is not exactly a bool."""


def _blank(value: object) -> object:
    """None, "" and [] render the same way and clients interchange them."""
    return None if value is None or value == "" or value == [] else value


def _same_text(stored: Message, replayed: Message) -> bool:
    """Same role, content and reasoning. Content is text here; only the blank values are interchangeable."""
    return (
        stored.get("role") == replayed.get("role")
        and _blank(stored.get("content")) == _blank(replayed.get("content"))
        and _blank(stored.get("reasoning_content")) == _blank(replayed.get("reasoning_content"))
    )


def _equal(left: object, right: object) -> bool:
    """Equality that also tells 1 from True and 1 from 1.0, at any depth."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return left == right


def strict(stored: Message, replayed: Message) -> bool:
    """Same role, content, reasoning and tool calls, the arguments byte for byte."""
    return _same_text(stored, replayed) and _same_calls(stored, replayed, _same_call_strictly)


def loose_tool_call(stored: Message, replayed: Message) -> bool:
    """As `strict`, with tool arguments compared as JSON objects."""
    return _same_text(stored, replayed) and _same_calls(stored, replayed, partial(_same_call, read=_as_object))


def as_parsed(stored: Message, replayed: Message) -> bool:
    """As `loose_tool_call`, for arguments that went through a client's parser.

    What it cannot keep does not count: numbers are compared as doubles, and of a repeated key the last value.
    """
    return _same_text(stored, replayed) and _same_calls(stored, replayed, partial(_same_call, read=_as_parsed))


def _same_calls(stored: Message, replayed: Message, same: Callable[[object, object], bool]) -> bool:
    left, right = _blank(stored.get("tool_calls")), _blank(replayed.get("tool_calls"))
    if left is None or right is None:
        return left is right
    if not isinstance(left, list) or not isinstance(right, list):
        return _equal(left, right)
    return len(left) == len(right) and all(map(same, left, right))


def _same_call_strictly(stored: object, replayed: object) -> bool:
    if not isinstance(stored, dict) or not isinstance(replayed, dict):
        return _equal(stored, replayed)
    return _equal(_without(stored, "index"), _without(replayed, "index"))


def _same_call(stored: object, replayed: object, *, read: Reader) -> bool:
    if not isinstance(stored, dict) or not isinstance(replayed, dict):
        return _equal(stored, replayed)
    if not _equal(_without(stored, "index", "function"), _without(replayed, "index", "function")):
        return False
    left, right = stored.get("function"), replayed.get("function")
    if not isinstance(left, dict) or not isinstance(right, dict):
        return _equal(left, right)
    return _equal(_without(left, "arguments"), _without(right, "arguments")) and _same_arguments(
        left.get("arguments"), right.get("arguments"), read
    )


def _without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in keys}


def _same_arguments(left: object, right: object, read: Reader) -> bool:
    if type(left) is type(right) and left == right:
        return True
    first, second = read(left), read(right)
    if first is None or second is None:
        return _equal(left, right)
    return _equal(first, second)


def _as_object(arguments: object) -> dict[str, Any] | None:
    """The JSON object that `arguments` spells, its numbers exact; None when it spells none or spells it ambiguously."""
    return _spelled(arguments, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=_unique)


def _as_parsed(arguments: object) -> dict[str, Any] | None:
    """The JSON object that `arguments` spells to a parser with doubles; None when it spells none."""
    return _spelled(arguments, parse_int=float)


def _spelled(arguments: object, **hooks: Any) -> dict[str, Any] | None:
    if arguments is None or arguments == "":
        return {}
    try:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, allow_nan=False)
        value = json.loads(text, parse_constant=_refuse, **hooks)
    except (ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has the same key twice")
    return value


def role_content_only(stored: Message, replayed: Message) -> bool:
    """Same role and content; reasoning and tool calls are not looked at."""
    return stored.get("role") == replayed.get("role") and _blank(stored.get("content")) == _blank(
        replayed.get("content")
    )


BUILT_IN: dict[str, Matcher] = {
    "strict": strict,
    "loose_tool_call": loose_tool_call,
    "role_content_only": role_content_only,
}


def load(name: str) -> Matcher:
    """The matcher of that name, or the function that a dotted path names.

    Raises:
        ValueError: there is no such matcher, or it is not a plain function.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    return _guarded(name, import_function(name, known=sorted(BUILT_IN)))


def import_function(path: str, *, known: Sequence[str]) -> Callable[..., Any]:
    """The synchronous function at `package.module:name` (or `package.module.name`).

    Raises:
        ValueError: saying which part of the path is at fault and which built-in names exist.
    """
    module, separator, name = path.partition(":")
    if not separator:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise ValueError(f"{path!r} is neither one of {', '.join(known)} nor a dotted path package.module:function")
    try:
        target = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{path!r}: cannot import {module!r}: {error}") from error
    try:
        function = vars(target)[name]
    except KeyError:
        raise ValueError(f"{path!r}: module {module!r} has no {name!r}") from None
    if not callable(function):
        raise ValueError(f"{path!r} is not callable")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f"{path!r} is asynchronous; a plain function is needed")
    return function  # type: ignore[no-any-return]


def _guarded(name: str, function: Callable[..., Any]) -> Matcher:
    def guarded(stored: Message, replayed: Message) -> bool:
        try:
            verdict = function(stored, replayed)
        except Exception as error:
            raise MatcherError(f"matcher {name} raised {type(error).__name__}: {error}") from error
        if type(verdict) is not bool:
            raise MatcherError(f"matcher {name} returned {type(verdict).__name__}, expected bool")
        return verdict

    return guarded


def matching_length(stored: Sequence[Message], replayed: Sequence[Message], matcher: Matcher) -> int:
    """Number of leading messages that match."""
    for index, (left, right) in enumerate(zip(stored, replayed, strict=False)):
        if left is not right and not matcher(left, right):
            return index
    return min(len(stored), len(replayed))
