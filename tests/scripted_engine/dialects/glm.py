"""GLM-4.7: thinking that the prompt opens, no white space between the parts, a turn ends with the next one's opener.

Read as SGLang's `glm45` and `glm47` parsers do: what stands around calls is stripped.
"""

from __future__ import annotations

import re
from typing import Any

from .shape import Answer, Checkpoint, Message, message, opened, plain_text

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_DETAIL = re.compile(r"(.*?)(<arg_key>.*)?", re.DOTALL)
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


class Glm:
    """GLM-4.7."""

    checkpoint = Checkpoint(
        special=(
            "<|endoftext|>",
            "[gMASK]",
            "<sop>",
            "<|system|>",
            "<|user|>",
            "<|assistant|>",
            "<|observation|>",
        ),
        plain=(
            *("<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>"),
            *("<arg_value>", "</arg_value>", "<tool_response>", "</tool_response>"),
        ),
        eos="<|endoftext|>",
        stand_in="glm47.jinja",
    )
    reasoning_parser = "glm45"
    tool_call_parser = "glm47"

    def write(self, said: Answer, thought: str) -> str:
        """Forced or not, the grammar leaves no room."""
        calls = "".join(
            f"<tool_call>{call['name']}"
            + "".join(
                f"<arg_key>{key}</arg_key><arg_value>{plain_text(value)}</arg_value>"
                for key, value in call["arguments"].items()
            )
            + "</tool_call>"
            for call in said.calls
        )
        return f"{thought}</think>{said.content}{calls}"

    def end(self, said: Answer) -> str:
        """The opener of what comes next: a tool's result, or the user."""
        return "<|observation|>" if said.calls else "<|user|>"

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """A call of a tool that nobody declared is dropped."""
        reasoning, content = opened(text)
        calls: list[tuple[str, dict[str, Any]]] = []
        if calls_allowed and "<tool_call>" in content:
            for block in _CALL.findall(content):
                detail = _DETAIL.fullmatch(block)
                if detail is not None and detail[1].strip() in names:
                    calls.append((detail[1].strip(), dict(_PAIR.findall(detail[2] or ""))))
            content = _CALL.sub("", content).strip()
        return message(content, reasoning, calls)
