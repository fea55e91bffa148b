"""The reply is the text of its sampled ids: what a client read must be found in what the tokens say.

Parsers cut the text up, so this asks for less than a re-render: reasoning and content stand in the decoded text as they
are, and so do the names and values of tool calls. A token that was lost or exchanged between sampling and recording
shows here, where all counts agree and no later prompt contradicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject, Record
from runner.oracle.finding import Finding, hard
from runner.oracle.tokens import Tokens

CHECK: Final = "text"
NAME: Final = "call_name"
_EXCERPT: Final = 200
_OPENER: Final = "<think>"
_TAIL: Final = 4
"""Tokens at the end of a prompt in which the opening of the thinking is looked for."""


def check_text(records: Sequence[Record], turns: Sequence[int], tokens: Tokens) -> list[Finding]:
    """One finding for each part of a reply that its sampled ids do not say.

    `turns[i]` is the agent's number of the turn in `records[i]`.
    """
    findings: list[Finding] = []
    for record, turn in zip(records, turns, strict=True):
        said = tokens.visible(record.output_ids)
        if tokens.decode(record.input_ids[-_TAIL:]).rstrip().endswith(_OPENER):
            said = _OPENER + said  # the prompt has opened the thinking, and some parsers put its tag into the content
        whole = tokens.decode(record.output_ids)
        for part, pieces in _parts(record.message):
            # control tokens that were sampled are text to a parser, but never a part of a name
            if not any(piece in said or (part != NAME and piece in whole) for piece in pieces):
                findings.append(
                    hard(
                        CHECK,
                        part,
                        f"turn {turn}: the {part.replace('_', ' ')} of the reply, {pieces[0][:_EXCERPT]!r}, is not in "
                        f"the text of its {len(record.output_ids)} sampled ids, {said[:_EXCERPT]!r}",
                        turn=turn,
                        role="assistant",
                    )
                )
    return findings


def _parts(message: JsonObject) -> Iterator[tuple[str, list[str]]]:
    """The parts of a reply, each with the spellings of which one must be found."""
    calls = message.get("tool_calls")
    reasoning, content = message.get("reasoning_content"), message.get("content")
    if isinstance(reasoning, str):
        yield "reasoning", [reasoning]
    if isinstance(content, str) and not calls:
        yield "content", [content]  # beside calls, parsers put it together from what stood around them
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield NAME, [str(function.get("name"))]
            for value in _values(function.get("arguments")):
                yield "call_argument", value


def _values(arguments: JsonValue) -> Iterator[list[str]]:
    """The texts among a call's arguments, keys included, plain and as JSON may escape them."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return
    yield from _texts(arguments)


def _texts(value: JsonValue) -> Iterator[list[str]]:
    if isinstance(value, str):
        yield [value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]]
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
