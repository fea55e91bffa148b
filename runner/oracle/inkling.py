"""Inkling's text of a conversation: a run of typed messages. A reading of its own, independent of any chat template.

Every message is `<|message_ROLE|>`, an author where there is one, a kind of content, the text and `<|end_message|>`. A
turn of the model is several of them, closed by a token of its own. Behind the leading system messages stand the tools
and the thinking effort; the effort is the default one, since nothing here asks for another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject

_END: Final = "<|end_message|>"
_MODEL: Final = "<|message_model|>"
_TURN_END: Final = "<|content_model_end_sampling|>"
_TEXT: Final = "<|content_text|>"
_EFFORT: Final = f"<|message_system|>{_TEXT}Thinking effort level: 0.9{_END}"


class Inkling:
    """Writes conversations."""

    def prepare(self) -> None:
        """Nothing is left to load."""

    def write(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> str:
        """The conversation; with `prompt` the next turn is opened. Raises ValueError for a role that it cannot have."""
        leading = next((i for i, message in enumerate(messages) if message.get("role") != "system"), len(messages))
        names: dict[str, str] = {}
        parts = [_said(message, names) for message in messages[:leading]]
        parts += [_declared(tools), _EFFORT]
        parts += [_said(message, names) for message in messages[leading:]]
        return "".join(parts) + (_MODEL if prompt else "")


def _declared(tools: Sequence[JsonObject] | None) -> str:
    if not tools:
        return ""
    specs: list[JsonValue] = []
    for tool in tools:
        function = tool.get("function")
        inner = function if isinstance(function, dict) else tool
        specs.append(
            {
                "type": "function",
                "name": inner.get("name"),
                "description": inner.get("description") or "",
                "parameters": inner.get("parameters") or {},
            }
        )
    return f"<|message_system|>tool_declare<|content_xml|>{_json(specs)}{_END}"


def _said(message: JsonObject, names: dict[str, str]) -> str:
    """One message; `names` (call id -> tool) is filled on the way."""
    role, content = message.get("role"), str(message.get("content") or "")
    if role in ("system", "user"):
        return f"<|message_{role}|>{_TEXT}{content}{_END}"
    if role == "tool":
        author = names.get(str(message.get("tool_call_id") or ""), str(message.get("name") or ""))
        return f"<|message_tool|>{author}{_TEXT}{content}{_END}"
    if role == "assistant":
        return "".join(f"{_MODEL}{part}{_END}" for part in _parts(message, content, names)) + _TURN_END
    raise ValueError(f"Inkling has no role {role!r}")


def _parts(message: JsonObject, content: str, names: dict[str, str]) -> Iterator[str]:
    reasoning, calls = message.get("reasoning_content"), message.get("tool_calls")
    if reasoning:
        yield f"<|content_thinking|>{reasoning}"
    if content or not (reasoning or calls):
        yield f"{_TEXT}{content}"
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            name = str(function.get("name"))
            names[str(call.get("id") or "")] = name
            payload = f'{{"name":{_json(name)},"args":{_json(function.get("arguments") or {})}}}'
            yield f"{name}<|content_invoke_tool_json|>{payload}"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
