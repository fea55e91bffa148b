"""Inkling: a turn is a run of typed messages, closed by a token of its own. Read as the `inkling` parsers do."""

from __future__ import annotations

import json
import re
from typing import Any

from .shape import Answer, Checkpoint, Message, message

_MODEL, _END = "<|message_model|>", "<|end_message|>"
_THINKING, _TEXT, _CALL = "<|content_thinking|>", "<|content_text|>", "<|content_invoke_tool_json|>"
_PART = re.compile(
    rf"((?:{re.escape(_MODEL)})?[^<]*)({re.escape(_THINKING)}|{re.escape(_TEXT)}|{re.escape(_CALL)})"
    rf"(.*?)({re.escape(_END)}|$)",
    re.DOTALL,
)
_CONTROL = re.compile("|".join(map(re.escape, (_MODEL, _END, _THINKING, _TEXT, _CALL))))


class Inkling:
    """Inkling."""

    checkpoint = Checkpoint(
        special=(
            *("<|message_user|>", _MODEL, "<|message_system|>", "<|message_tool|>", _TEXT, _THINKING),
            *("<|content_xml|>", _CALL, _END, "<|content_model_end_sampling|>"),
        ),
        plain=(),
        eos="<|content_model_end_sampling|>",
    )
    reasoning_parser = "inkling"
    tool_call_parser = "inkling"

    def write(self, said: Answer, thought: str) -> str:
        """The prompt has opened the first message."""
        parts = [f"{_THINKING}{thought}"]
        if said.content:
            parts.append(f"{_TEXT}{said.content}")
        for call in said.calls:
            payload = {"name": call["name"], "args": call["arguments"]}
            arguments = json.dumps(payload["args"], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
            parts.append(f'{call["name"]}{_CALL}{{"name":{json.dumps(call["name"])},"args":{arguments}}}')
        return _MODEL.join(f"{part}{_END}" for part in parts)

    def end(self, said: Answer) -> str:
        """One token for every turn."""
        return self.checkpoint.eos

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """`names` are not asked: a call of an undeclared tool comes out as well."""
        reasoning, content = [], []
        calls: list[tuple[str, dict[str, Any]]] = []
        bodies: list[str] = []
        for header, kind, body, end in _PART.findall(text):
            if kind == _THINKING:
                reasoning.append(body)
            elif kind == _TEXT:
                content.append(body)
            else:
                bodies.append(body)
                calls += [made for made in [_call(body)] if made is not None and end]
                if not calls_allowed:
                    content.append(f"{header}{kind}{body}{end}")  # nobody takes it apart
        if not calls_allowed:
            calls = []
        elif len(calls) < len(bodies):  # one that is no whole call spoils all of them, and only the last may be saved
            saved = _call(bodies[-1])
            calls = [saved] if saved else []
            content = [] if saved else [_CONTROL.sub("", text.replace(f"{_THINKING}{''.join(reasoning)}", ""))]
        if not _PART.search(text):
            content.append(text)
        return message("".join(content), "".join(reasoning), calls)


def _call(body: str) -> tuple[str, dict[str, Any]] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return (value["name"], value.get("args", {})) if isinstance(value, dict) and value.get("name") else None
