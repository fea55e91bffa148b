"""DeepSeek V4: thinking that the prompt opens, calls in DSML tags. Read as `deepseek-v4` and `deepseekv4` do."""

from __future__ import annotations

import json
import re
from typing import Any

from .shape import Answer, Checkpoint, Message, message, opened, plain_text

_MARK = "｜DSML｜"
_BLOCK = re.compile(rf"<{_MARK}tool_calls>(.*?)</{_MARK}tool_calls>", re.DOTALL)
_INVOKE = re.compile(rf'<{_MARK}invoke\s+name="([^"]+)"\s*>(.*?)</{_MARK}invoke>', re.DOTALL)
_PARAMETER = re.compile(
    rf'<{_MARK}parameter\s+name="([^"]+)"\s+string="([^"]+)"\s*>(.*?)</{_MARK}parameter>', re.DOTALL
)


class DeepSeek:
    """DeepSeek V4."""

    checkpoint = Checkpoint(
        special=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        plain=("<think>", "</think>", _MARK),
        eos="<｜end▁of▁sentence｜>",
        model_type="deepseek_v4",
    )
    reasoning_parser = "deepseek-v4"
    tool_call_parser = "deepseekv4"

    def write(self, said: Answer, thought: str) -> str:
        """Strings are written as they are, other values as JSON, and each says which it is."""
        text = f"{thought}</think>{said.content}"
        if not said.calls:
            return text
        calls = "\n".join(
            f'<{_MARK}invoke name="{call["name"]}">\n'
            + "\n".join(_parameter(key, value) for key, value in call["arguments"].items())
            + f"\n</{_MARK}invoke>"
            for call in said.calls
        )
        return f"{text}\n\n<{_MARK}tool_calls>\n{calls}\n</{_MARK}tool_calls>"

    def end(self, said: Answer) -> str:
        """One token for every turn."""
        return self.checkpoint.eos

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """The blank line in front of a block belongs to the block."""
        reasoning, content = opened(text)
        calls: list[tuple[str, dict[str, Any]]] = []
        start = content.find(f"<{_MARK}tool_calls>")
        if calls_allowed and start >= 0:
            for block in _BLOCK.findall(content):
                for name, body in _INVOKE.findall(block):
                    if name in names:
                        calls.append(
                            (name, {key: _value(kind, value) for key, kind, value in _PARAMETER.findall(body)})
                        )
            content = content[:start].removesuffix("\n\n")
        return message(content, reasoning, calls)


def _parameter(key: str, value: Any) -> str:
    kind = "true" if isinstance(value, str) else "false"
    return f'<{_MARK}parameter name="{key}" string="{kind}">{plain_text(value)}</{_MARK}parameter>'


def _value(kind: str, value: str) -> Any:
    if kind == "true":
        return value.strip()
    try:
        return json.loads(value.strip())
    except ValueError:
        return value.strip()
