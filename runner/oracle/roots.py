"""New roots: where a conversation began anew because something at its front had changed, and what it was.

It follows from what the agent sent, so it is known before any server answers; that the server began anew exactly there
is the tree's check. Told, not failed: a client whose system prompt changes with every request pays for every prompt as
a whole, and this names the block that does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject
from runner.agents.transcript import Transcript, TurnLog
from runner.oracle.finding import Finding, Severity
from runner.oracle.tree import CHECK

_AROUND: Final = 40
"""Characters that are shown of a text from the first one on that differs."""


def check_roots(transcript: Transcript) -> list[Finding]:
    """One note for each turn that began with other messages than every turn before it that began one.

    A first request that is repeated word for word makes a root as well, but nothing has changed there to be named.
    """
    begun: list[TurnLog] = []
    for turn in transcript.turns:
        if turn.parent is None and all(turn.messages != other.messages for other in begun):
            begun.append(turn)
    notes: list[Finding] = []
    for number, turn in enumerate(begun[1:], start=2):
        before = max((other for other in transcript.turns if other.turn < turn.turn), key=lambda other: other.turn)
        message = (
            f"turn {turn.turn} began a new root ({number} of {len(begun)}), so that none of its prompt continues an "
            f"earlier one: {_changed(before, turn)}"
        )
        notes.append(Finding(CHECK, "new_root", Severity.NOTE, message, turn=turn.turn))
    return notes


def _changed(before: TurnLog, after: TurnLog) -> str:
    """The first place where the later request is not the earlier one."""
    for index, (old, new) in enumerate(zip(before.messages, after.messages, strict=False)):
        if old != new:
            where = f"message {index} ({new.get('role')})"
            return next(_differences(where, old, new), f"{where} is another one")
    return f"number of messages {len(before.messages)} became {len(after.messages)}"


def _differences(where: str, old: JsonObject, new: JsonObject) -> Iterator[str]:
    if old.get("role") != new.get("role"):
        yield f"{where} was one of {old.get('role')}"
    left, right = _blocks(old.get("content")), _blocks(new.get("content"))
    for block, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            named = f"{where}, block {block}" if len(right) > 1 else where
            at = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, (one, other)))
            )
            start = _line_start(one, at)
            yield (
                f"{named}, from character {at} on: {one[start : at + _AROUND]!r} became {other[start : at + _AROUND]!r}"
            )
    if len(left) != len(right):
        yield f"{where}: number of blocks {len(left)} became {len(right)}"


def _line_start(text: str, at: int) -> int:
    """Where the line of the character at `at` begins, or a little before it in a long line."""
    return max(text.rfind("\n", 0, at) + 1, at - _AROUND)


def _blocks(content: JsonValue) -> Sequence[str]:
    if isinstance(content, list):
        return [str(block.get("text", block)) if isinstance(block, dict) else str(block) for block in content]
    return [content if isinstance(content, str) else str(content)]
