"""Canonical re-render: the whole conversation written by the family's template, compared with the tokens that are kept.

Templates are rendered through `transformers`; families without one have a writer of their own. Both read the form
independently of the server. What is found is graded: special tokens and everything outside assistant turns must be
equal; assistant turns may differ in form, in classes that are told apart. How a server prints the tools (as sent, or
with SGLang's defaults) is found from the first prompt, so that a printed default is not mistaken for a fault.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from pydantic import JsonValue

from runner.agents.records import JsonObject, Record
from runner.oracle.control import Spellings
from runner.oracle.deepseek import DeepSeek
from runner.oracle.finding import Finding, Severity, hard
from runner.oracle.forms import FORMS, Encoder, Form
from runner.oracle.inkling import Inkling
from runner.oracle.place import role_at
from runner.oracle.segments import ASSISTANT_TEXT, COUNT, OTHER_SPLIT, SegmentDiff, compare, trimmed, unmarked
from runner.oracle.soft import classify
from runner.oracle.template import effective
from runner.oracle.templated import Templated
from runner.oracle.tokens import Tokens, first_difference

CHECK: Final = "render"
_EXCERPT: Final = 300


class Writer(Protocol):
    """Writes whole conversations in a family's form."""

    def prepare(self) -> None:
        """Load what the first text needs."""

    def write(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> str:
        """The conversation as text; with `prompt` the next turn is opened. Raises what it likes."""


class Canon:
    """The canonical form of one family over one tokenizer directory."""

    def __init__(self, form: Form, writer: Writer, tokens: Tokens) -> None:
        self.form = form
        self._writer = writer
        self._tokens = tokens

    @classmethod
    def load(cls, directory: Path, tito_model: str, tokens: Tokens) -> Canon | None:
        """The form of `tito_model`; None for a family that has none.

        Raises InfrastructureError when the form is known and its template is nowhere.
        """
        form = FORMS.get(tito_model)
        if form is None:
            return None
        return cls(form, _writer(form, directory), tokens)

    @cached_property
    def boundaries(self) -> frozenset[int]:
        """Ids that split segments."""
        if self.form.boundaries is not None:
            return frozenset(self._ids(self.form.boundaries))
        return self._tokens.special_ids - frozenset(self._ids(self.form.inside))

    @cached_property
    def controls(self) -> dict[str, int]:
        """The boundaries by their texts."""
        return {self._tokens.decode([token_id]): token_id for token_id in sorted(self.boundaries)}

    @cached_property
    def trailing(self) -> frozenset[int]:
        """Ids that are cut from both ends."""
        return frozenset(self._ids(self.form.trailing))

    def prepare(self) -> None:
        """Load what the first render needs, so that it takes no longer than the others."""
        self._writer.prepare()

    def ids(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> list[int]:
        """The conversation as the family writes it, `[n_tokens]`; with `prompt` the next turn is opened."""
        return self._tokens.encode(self.text(messages, tools, prompt))

    def text(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> str:
        """The same as text."""
        return self._writer.write([_plain(message) for message in messages], tools, prompt)

    def _ids(self, texts: Sequence[str]) -> list[int]:
        found: list[int] = []
        for text in texts:
            ids = self._tokens.encode(text)
            if len(ids) == 1:
                found += ids
        return found


def _writer(form: Form, directory: Path) -> Writer:
    match form.encoder:
        case Encoder.DEEPSEEK_V4:
            return DeepSeek()
        case Encoder.INKLING:
            return Inkling()
        case Encoder.TEMPLATE:
            return Templated(effective(directory, form), form.arguments, directory)


def not_rendered(reason: str) -> Finding:
    """What stands in the place of this check for a family without a canonical form."""
    message = (
        f"the canonical re-render is not applicable: {reason}. What stands outside of assistant turns, and the form of "
        f"these, is held to the server's own comparison alone"
    )
    return Finding(CHECK, "not_applicable", Severity.NOTE, message)


def check_render(
    records: Sequence[Record], turns: Sequence[int], sent: Sequence[JsonObject], canon: Canon, tokens: Tokens
) -> list[Finding]:
    """The tokens of the whole path beside the canonical render of its messages.

    `turns[i]` is the agent's number of the turn in `records[i]`, `sent` the tools as the agent sent them.
    """
    if not records:
        return []
    last = records[-1]
    spellings = Spellings.of(records, canon.controls)
    try:
        tools, notes = _tools(records[0], sent, canon, tokens)
        expected = canon.ids(spellings.to_render, tools, prompt=False)
    except Exception as error:  # a template raises whatever it likes
        return [hard(CHECK, "unrenderable", f"the template refuses the conversation: {type(error).__name__}: {error}")]
    actual = [*last.input_ids, *last.output_ids]
    diffs = compare(
        trimmed(expected, canon.trailing),
        trimmed(actual, canon.trailing),
        canon.boundaries,
        canon.form.assistant,
        tokens,
        mark=spellings.mark,
        inside=spellings.inside(records),
    )
    found = [_finding(diff, records, turns, tokens, spellings.mark) for diff in diffs]
    return [*notes, *spellings.notes(records, turns), *found]


def _finding(diff: SegmentDiff, records: Sequence[Record], turns: Sequence[int], tokens: Tokens, mark: str) -> Finding:
    left = diff.expected.ids if diff.expected is not None else []
    right = diff.actual.ids if diff.actual is not None else []
    expected, actual = unmarked(tokens.decode(left), mark), tokens.decode(right)
    within = first_difference(left, right) or 0
    start = diff.actual.start if diff.actual is not None else len(records[-1].input_ids) + len(records[-1].output_ids)
    seen = tokens.diff(left, right, within)
    shown = replace(seen, token_index=start + within, expected_text=unmarked(seen.expected_text, mark))
    position, role = role_at(records, start + within, tokens)
    kind, severity = diff.type, Severity.HARD
    if diff.type == ASSISTANT_TEXT:
        kind, severity = classify(expected, actual).value, Severity.SOFT
    what = "other segments from here on" if diff.type == COUNT else f"segment {diff.position}"
    if diff.type == OTHER_SPLIT:
        what += f", the same text in {len(right)} tokens instead of {len(left)}"
    return Finding(
        CHECK,
        kind,
        severity,
        f"{diff.type}: {what}: the canonical render has {expected[:_EXCERPT]!r}, kept is {actual[:_EXCERPT]!r}",
        turn=turns[position],
        role=role,
        diff=shown,
    )


def _tools(
    first: Record, sent: Sequence[JsonObject], canon: Canon, tokens: Tokens
) -> tuple[list[JsonObject] | None, list[Finding]]:
    """The tools in the form in which this server prints them, found by rendering the first prompt."""
    recorded = first.request.tools
    if recorded is None:
        return None, []
    forms = {
        "as_sent": as_sent(recorded, sent),
        "recorded": recorded,
        "sglang": [{**tool, "defer_loading": None} for tool in as_sent(recorded, sent)],
        "sglang with all defaults": [_dumped(tool) for tool in recorded],
    }
    for name, tools in forms.items():
        if canon.ids(first.request.messages, tools, prompt=True) == first.input_ids:
            if name == "as_sent":
                return tools, []
            message = f"the server prints tools into the prompt in the form {name!r}, not as they were sent"
            return tools, [Finding(CHECK, "tool_form", Severity.NOTE, message, turn=1)]
    expected = canon.ids(first.request.messages, forms["as_sent"], prompt=True)
    index = first_difference(expected, first.input_ids) or 0
    message = f"the first prompt is not the canonical render of its messages and tools, from token {index} on"
    diff = tokens.diff(expected, first.input_ids, index)
    return forms["as_sent"], [Finding(CHECK, "first_prompt", Severity.NOTE, message, turn=1, diff=diff)]


_ADDED: Final = frozenset({"strict", "defer_loading"})
"""What servers add to a tool on its way to the engine."""


def _function(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    return function if isinstance(function, dict) else {}


def as_sent(recorded: Sequence[JsonObject], sent: Sequence[JsonObject]) -> list[JsonObject]:
    """The recorded tools without what the server added: `sent` are the tools in the form of the agent's wire."""
    own = {key for tool in sent for key in (*tool, *_function(tool))}
    return [_without(tool, _ADDED - own) for tool in recorded]


def _without(tool: JsonObject, keys: frozenset[str]) -> JsonObject:
    kept: JsonObject = {key: value for key, value in tool.items() if key not in keys}
    if "function" in kept:
        kept["function"] = {key: value for key, value in _function(tool).items() if key not in keys}
    return kept


def _dumped(tool: JsonObject) -> JsonObject:
    """A tool as SGLang 0.5.16 prints it: its own key order, defaults included. 0.5.23 only adds `defer_loading`."""
    inner = _function(tool)
    printed: JsonObject = {key: inner.get(key) for key in ("description", "name", "parameters")}
    printed["strict"] = False
    return {"type": "function", "function": printed, "defer_loading": None}


def _plain(message: JsonObject) -> JsonObject:
    """A message as templates expect it: text content, arguments as objects, no empty fields."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    plain: JsonObject = {key: value for key, value in message.items() if value is not None}
    plain["content"] = content or ""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        plain["tool_calls"] = [_with_object(call) for call in calls]
    else:
        plain.pop("tool_calls", None)
    return plain


def _with_object(call: JsonValue) -> JsonValue:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments else {}
        except ValueError:
            return call
    return {**call, "function": {**function, "arguments": arguments}}
