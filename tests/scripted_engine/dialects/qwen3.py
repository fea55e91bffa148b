"""Qwen3: thinking that the model opens itself, calls as JSON. Read as SGLang's `qwen3` and `qwen25` parsers do.

Their quirks are kept: white space around the thinking stays, content before a call is stripped, and a call without its
end tag is dropped.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .shape import Answer, Checkpoint, Message, message, opened

_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


class Qwen3:
    """Qwen3."""

    checkpoint = Checkpoint(
        special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        plain=("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
        template="qwen3_fixed.jinja",
    )
    reasoning_parser = "qwen3"
    tool_call_parser = "qwen25"

    def write(self, said: Answer, thought: str) -> str:
        """A forced call stands right behind the thinking, in the spacing of a tool grammar."""
        opening = '{"name":"%s", "arguments":' if said.forced else '{"name": "%s", "arguments": '
        calls = "\n".join(
            "<tool_call>\n"
            + opening % call["name"]
            + json.dumps(call["arguments"], ensure_ascii=False)
            + "}\n</tool_call>"
            for call in said.calls
        )
        body = "\n".join(part for part in (said.content, calls) if part)
        return f"<think>\n{thought}\n</think>" + ("" if said.forced else "\n\n") + body

    def end(self, said: Answer) -> str:
        """One token for every turn."""
        return "<|im_end|>"

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """A text that opens no thinking has none."""
        reasoning, content = opened(text) if "<think>" in text else ("", text)
        calls: list[tuple[str, dict[str, Any]]] = []
        if calls_allowed and "<tool_call>\n" in content:
            for found in _CALL.findall(content):
                try:
                    value = json.loads(found.strip())
                except ValueError:
                    continue
                if isinstance(value, dict) and value.get("name") in names:
                    calls.append((value["name"], value.get("arguments", {})))
            content = content[: content.find("<tool_call>\n")].strip()
        return message(content, reasoning, calls)
