"""MiniMax M2.7: thinking that stays in the content, calls as `invoke` tags.

Read as `minimax-append-think` and `minimax-m2` do: the opening tag, which the prompt has, is put in front of the text,
and there is no reasoning of its own; what stands around a block of calls stays content, white space included.
"""

from __future__ import annotations

import re
from typing import Any

from .shape import Answer, Checkpoint, Message, message, plain_text

_BLOCK = re.compile(r"<minimax:tool_call>(.*?)</minimax:tool_call>", re.DOTALL)
_INVOKE = re.compile(r'<invoke name="(.*?)">(.*?)</invoke>', re.DOTALL)
_PARAMETER = re.compile(r'<parameter name="(.*?)">(.*?)</parameter>', re.DOTALL)


class MiniMax:
    """MiniMax M2.7."""

    checkpoint = Checkpoint(
        special=("]~!b[", "]~b]", "[e~["),
        plain=("<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"),
        eos="[e~[",
        template="minimax_m27_fixed.jinja",
    )
    reasoning_parser = "minimax-append-think"
    tool_call_parser = "minimax-m2"

    def write(self, said: Answer, thought: str) -> str:
        """A block of calls stands on lines of its own."""
        calls = "".join(
            f'<invoke name="{call["name"]}">\n'
            + "".join(
                f'<parameter name="{key}">{plain_text(value)}</parameter>\n' for key, value in call["arguments"].items()
            )
            + "</invoke>\n"
            for call in said.calls
        )
        block = f"\n<minimax:tool_call>\n{calls}</minimax:tool_call>" if calls else ""
        return f"{thought}\n</think>\n\n{said.content}{block}"

    def end(self, said: Answer) -> str:
        """One token for every turn."""
        return self.checkpoint.eos

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """A call of a tool that nobody declared is dropped."""
        content = f"<think>{text}"
        calls: list[tuple[str, dict[str, Any]]] = []
        if calls_allowed:
            for block in _BLOCK.findall(content):
                for name, body in _INVOKE.findall(block):
                    if name.strip() in names:
                        values = {key.strip(): value.strip("\n") for key, value in _PARAMETER.findall(body)}
                        calls.append((name.strip(), values))
            content = _BLOCK.sub("", content)
        return message(content, "", calls)
