"""Qwen3.5, Qwen3.6 and Nemotron 3: thinking that the prompt opens, calls as tags, read as `qwen3_coder` does.

That parser keeps the white space in front of a call as content, takes a call that was cut off for one, knows no list of
declared tools, and converts a value by the tool's schema; the tools that are driven here declare strings, so a value
stays the text that it is.
"""

from __future__ import annotations

import re
from typing import Any

from .qwen3 import Qwen3
from .shape import Answer, Checkpoint, Message, message, opened, plain_text

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_FUNCTION = re.compile(r"<function=(.*?)</function>|<function=(.*)$", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>)|$)", re.DOTALL)


class Coder:
    """`gap` stands between thinking and content, `before_call` between content and the first call."""

    tool_call_parser = "qwen3_coder"

    def __init__(self, checkpoint: Checkpoint, *, reasoning_parser: str, gap: str, before_call: str) -> None:
        self.checkpoint = checkpoint
        self.reasoning_parser = reasoning_parser
        self._gap = gap
        self._before_call = before_call

    def write(self, said: Answer, thought: str) -> str:
        """A forced call stands right behind the thinking."""
        calls = "\n".join(_written(call) for call in said.calls)
        between = self._before_call if said.content and calls else ""
        return f"{thought}\n</think>" + ("" if said.forced else self._gap) + said.content + between + calls

    def end(self, said: Answer) -> str:
        """One token for every turn."""
        return "<|im_end|>"

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """`names` are not asked: this parser returns whatever is called."""
        reasoning, content = opened(text)
        calls: list[tuple[str, dict[str, Any]]] = []
        if calls_allowed and "<tool_call>" in content:
            for block in _CALL.findall(content) or [content]:
                for whole, cut in _FUNCTION.findall(block):
                    name, opened_by, body = (whole or cut).partition(">")
                    if opened_by:
                        calls.append((name, _values(body)))
            content = content[: content.find("<tool_call>")]
        return message(content, reasoning, calls)


def _written(call: dict[str, Any]) -> str:
    values = "".join(
        f"<parameter={key}>\n{plain_text(value)}\n</parameter>\n" for key, value in call["arguments"].items()
    )
    return f"<tool_call>\n<function={call['name']}>\n{values}</function>\n</tool_call>"


def _values(body: str) -> dict[str, Any]:
    pairs = (found.partition(">") for found in _PARAMETER.findall(body))
    return {key: value.removeprefix("\n").removesuffix("\n") for key, closed, value in pairs if closed}


def _checkpoint(**fields: str) -> Checkpoint:
    return Checkpoint(Qwen3.checkpoint.special, Qwen3.checkpoint.plain, **fields)


QWEN35 = Coder(_checkpoint(template="qwen3.5_fixed.jinja"), reasoning_parser="qwen3", gap="\n\n", before_call="\n\n")
NEMOTRON3 = Coder(_checkpoint(stand_in="nemotron3.jinja"), reasoning_parser="nemotron_3", gap="\n", before_call="\n")
