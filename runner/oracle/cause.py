"""Why a prompt does not continue the one before it: a class for the person who has to mend it.

It follows from where the sequences part and from what the messages say; it is a pointer, not a proof, and nothing is
judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from runner.agents.records import JsonObject, Record
from runner.oracle.match import strict
from runner.oracle.tokens import Tokens

END_TOKENS = 2
"""How near to the end of the sampled ids a difference must lie to be one of the stop token."""


class Cause(StrEnum):
    """Kinds of broken continuity."""

    RE_TOKENIZED = "re_tokenized"
    """The text is the same, its split is not: text was tokenized again instead of keeping ids."""
    STOP_TOKEN = "stop_token"  # noqa: S105 - the end of a turn
    """The end of the sampled ids is missing, doubled or another one."""
    HISTORY_REWRITTEN = "history_rewritten"
    """The messages before the new ones are not those of the turn before."""
    RE_TEMPLATED = "re_templated"
    """Text that nobody sampled is written in another way."""
    PARSER = "parser"
    """A sampled turn was written again from its parsed message, and the parser kept less than was sampled."""


def cause_of(before: Record, after: Record, expected: Sequence[int], index: int, role: str, tokens: Tokens) -> Cause:
    """The class of the first difference, at `index` of `expected` (`[n_tokens]`), in a text of `role`."""
    text = tokens.decode(expected)
    if tokens.decode(after.input_ids).startswith(text):
        return Cause.RE_TOKENIZED
    if index >= len(before.input_ids) + len(before.output_ids) - END_TOKENS:
        return Cause.STOP_TOKEN
    if _rewritten(before, after):
        return Cause.HISTORY_REWRITTEN
    return Cause.PARSER if role == "assistant" else Cause.RE_TEMPLATED


def _rewritten(before: Record, after: Record) -> bool:
    old = [*before.request.messages, before.message]
    new = after.request.messages[: len(old)]
    return len(new) < len(old) or not all(_same(a, b) for a, b in zip(old, new, strict=True))


def _same(left: JsonObject, right: JsonObject) -> bool:
    if left.get("role") == "assistant":
        return strict(left, right)
    return all(left.get(key) == right.get(key) for key in ("role", "content", "tool_call_id"))
