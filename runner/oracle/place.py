"""Whose tokens these are: from an index into a session's tokens to the turn and the role they belong to.

Sampled tokens are known exactly, from the records. What lies between them came with the messages that were appended
there; with several of them the text decides, and where the template does not render a message verbatim, all roles that
are possible are named. It is for people: nothing is judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from runner.agents.records import JsonObject, Record
from runner.oracle.tokens import Tokens


def role_at(records: Sequence[Record], index: int, tokens: Tokens) -> tuple[int, str]:
    """Position in `records` (from 0) and role of the token at `index` of the path's ids.

    A role is one of the message roles, or several joined by `+`.
    """
    start, known = 0, 0
    for position, record in enumerate(records):
        prompt_end = len(record.input_ids)
        if index < prompt_end or (position == len(records) - 1 and index < prompt_end):
            appended = record.request.messages[known:]
            return position, _among(appended, record.input_ids[start:prompt_end], index - start, tokens)
        start = prompt_end + len(record.output_ids)
        known = len(record.request.messages) + 1
        if index < start:
            return position, "assistant"
    return len(records) - 1, "assistant"


def _among(appended: Sequence[JsonObject], ids: Sequence[int], offset: int, tokens: Tokens) -> str:
    roles = list(dict.fromkeys(str(message.get("role")) for message in appended))
    if not roles:
        return "generation prompt"
    if len(roles) == 1:
        return roles[0]
    text = tokens.decode(ids)
    here = len(tokens.decode(ids[: max(0, offset) + 1]))
    searched = 0
    for message in appended:
        content = _text(message.get("content"))
        found = text.find(content, searched) if content else -1
        if found < 0:
            return "+".join(roles)
        searched = found + len(content)
        if here <= searched:
            return str(message.get("role"))
    return str(appended[-1].get("role"))


def _text(content: JsonValue) -> str:
    """Content as a template writes it: the parts of a list are joined."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
