"""From sampled text to a message, as SGLang's `qwen3` reasoning parser and `qwen25` tool-call parser do it.

Their quirks are kept: white space around the thinking stays, content before a call is stripped, a call without its end
tag is dropped, and content is never null.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


def parse(text: str, names: set[str], calls_allowed: bool) -> dict[str, Any]:
    """The assistant message of `text` (stop token already removed). `names` are the declared tools."""
    reasoning, content = _split(text)
    message: dict[str, Any] = {"role": "assistant", "content": content or "", "reasoning_content": reasoning or None}
    if calls_allowed and "<tool_call>\n" in content:
        message["content"] = content[: content.find("<tool_call>\n")].strip()
        calls: list[dict[str, Any]] = []
        for found in _CALL.findall(content):
            try:
                value = json.loads(found.strip())
            except ValueError:
                continue
            if isinstance(value, dict) and value.get("name") in names:
                calls.append(_call(len(calls), value["name"], value.get("arguments", {})))
        if calls:
            message["tool_calls"] = calls
    return message


def _split(text: str) -> tuple[str, str]:
    if "<think>" not in text:
        return "", text
    thought, closed, rest = text.removeprefix("<think>").partition("</think>")
    return (thought, rest) if closed else (thought, "")


def _call(index: int, name: str, arguments: Any) -> dict[str, Any]:
    return {
        "id": f"call_{uuid.uuid4().hex[:24]}",
        "index": index,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }
