"""DeepSeek V4's text of a conversation, which no chat template writes: a reading of its own, not the server's encoder.

A turn is `<｜Assistant｜><think>`, thinking, `</think>`, content, calls, end of sentence. Tool results and what
users say between two turns are blocks of one user message, results in the order of the calls. History is kept whole:
earlier thinking stays, so that the text only grows. Task tokens and response formats are not known here.
"""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject
from runner.base.errors import InfrastructureError

_START: Final = "<｜begin▁of▁sentence｜>"
_END: Final = "<｜end▁of▁sentence｜>"
_USER: Final = "<｜User｜>"
_OPENER: Final = "<｜Assistant｜><think>"
_MARK: Final = "｜DSML｜"
_PACKAGE: Final = "miles_tito_tokenizers"
_GUIDE: Final = ("encoders/deepseek_v4.py", "TOOLS_TEMPLATE")
"""Where the words around the tools stand: a constant of that file. The file is read, its code is not run."""


class DeepSeek:
    """Writes conversations. Raises InfrastructureError where the words around the tools are not to be had."""

    def __init__(self) -> None:
        self._guide = _guide()

    def prepare(self) -> None:
        """Nothing is left to load."""

    def write(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject] | None, prompt: bool) -> str:
        """The conversation; with `prompt` the next turn is opened. Raises ValueError for a role that it cannot have."""
        text = _START
        if tools and (not messages or messages[0].get("role") != "system"):
            text += self._tools(tools)
        order: dict[str, int] = {}
        asked: list[JsonObject] = []
        for index, message in enumerate(messages):
            role = message.get("role")
            if role in ("user", "tool"):
                asked.append(message)
                continue
            text += _asked(asked, order)
            asked = []
            if role == "system":
                text += str(message.get("content") or "") + (self._tools(tools) if tools and index == 0 else "")
            elif role == "assistant":
                text += _OPENER + _turn(message)
                order = _order(message) or order
            else:
                raise ValueError(f"DeepSeek V4 has no role {role!r}")
        text += _asked(asked, order)
        return text + _OPENER if prompt else text

    def _tools(self, tools: Sequence[JsonObject]) -> str:
        schemas = "\n".join(_json(tool.get("function")) for tool in tools)
        words = {"dsml_token": _MARK, "thinking_start_token": "<think>", "thinking_end_token": "</think>"}
        return "\n\n" + self._guide.format(**words, tool_schemas=schemas)


def _asked(messages: Sequence[JsonObject], order: dict[str, int]) -> str:
    """What stands between two turns: one user message of blocks, the results sorted within their places."""
    if not messages:
        return ""
    results = sorted(
        (message for message in messages if message.get("role") == "tool"),
        key=lambda message: order.get(str(message.get("tool_call_id") or ""), 0),
    )
    following = iter(results)
    blocks = [
        str(message.get("content") or "")
        if message.get("role") == "user"
        else f"<tool_result>{next(following).get('content') or ''}</tool_result>"
        for message in messages
    ]
    return _USER + "\n\n".join(blocks)


def _turn(message: JsonObject) -> str:
    text = f"{message.get('reasoning_content') or ''}</think>{message.get('content') or ''}"
    calls = _calls(message)
    if calls:
        written = "\n".join(_call(call) for call in calls)
        text += f"\n\n<{_MARK}tool_calls>\n{written}\n</{_MARK}tool_calls>"
    return text + _END


def _call(call: JsonObject) -> str:
    function = call.get("function")
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else ("", {})
    values = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return f'<{_MARK}invoke name="{name}">\n' + "\n".join(map(_value, values.items())) + f"\n</{_MARK}invoke>"


def _value(item: tuple[str, JsonValue]) -> str:
    key, value = item
    kind, text = ("true", value) if isinstance(value, str) else ("false", _json(value))
    return f'<{_MARK}parameter name="{key}" string="{kind}">{text}</{_MARK}parameter>'


def _calls(message: JsonObject) -> list[JsonObject]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _order(message: JsonObject) -> dict[str, int]:
    return {str(call["id"]): index for index, call in enumerate(_calls(message)) if call.get("id")}


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


@cache
def _guide() -> str:
    """The constant, taken from the source text of the package."""
    file, name = _GUIDE
    spec = importlib.util.find_spec(_PACKAGE)
    path = Path(spec.origin).parent / file if spec is not None and spec.origin is not None else None
    if path is not None and path.is_file():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
                value = ast.literal_eval(node.value)
                if isinstance(value, str):
                    return value
    raise InfrastructureError(
        f"the words that DeepSeek V4 puts around its tools are not installed: no {name} in {_PACKAGE}/{file}",
        f"make venv   # they are part of the package {_PACKAGE}",
    )
