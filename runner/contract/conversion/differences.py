"""Where two results of a conversion part.

Objects are compared key by key and lists of one length item by item; whatever else is not equal is one difference. The
order of keys counts where a template prints it: inside `tools`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """`path` is like `messages[2].content`, or `refused` where one side has no result, or ends in `(order)`."""

    path: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.path}: ours {self.ours!r}, SGLang's {self.theirs!r}"


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Difference]:
    """The differences of two outcomes, each `{"made": ...}` or `{"refused": why}`; two refusals are alike."""
    if "made" in ours and "made" in theirs:
        return list(_inside("", ours["made"], theirs["made"]))
    if "made" not in ours and "made" not in theirs:
        return []
    return [Difference("refused", ours.get("refused", ABSENT), theirs.get("refused", ABSENT))]


def _inside(path: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        shared = [key for key in ours if key in theirs]
        other = [key for key in theirs if key in ours]
        if path.startswith("tools[") and shared != other:
            yield Difference(f"{path}(order)", shared, other)
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            where = f"{path}.{key}" if path else key
            yield from _inside(where, ours.get(key, ABSENT), theirs.get(key, ABSENT))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, two) in enumerate(zip(ours, theirs, strict=True)):
            yield from _inside(f"{path}[{index}]", one, two)
    elif type(ours) is not type(theirs) or ours != theirs:
        yield Difference(path, ours, theirs)
