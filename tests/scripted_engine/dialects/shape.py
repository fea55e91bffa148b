"""What the scripted engine knows of a family: its tokens, how its model writes a turn, how SGLang reads one.

Writer and reader of a family stand in one class, and share nothing but the syntax: what the reader cannot read is a
fault of one of them, and a test holds both to the family's template and to SGLang's own parsers.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = dict[str, Any]

THOUGHTS = (
    "The user wants {topic}.",
    "I should answer with {topic}.",
    "This needs {topic} now.",
    "Next comes {topic}.",
)


@dataclass(frozen=True)
class Answer:
    """One assistant turn before it becomes text. `forced` is written as a tool grammar writes it."""

    topic: str
    content: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    forced: bool = False

    def thought(self, variation: int) -> str:
        """What is thought before it; `variation` picks the wording."""
        return THOUGHTS[variation % len(THOUGHTS)].format(topic=self.topic)


@dataclass(frozen=True)
class Checkpoint:
    """What a model directory of the family is made from.

    `special` tokens split segments, `plain` ones are added tokens that are ordinary text to a decoder. `template` is a
    file of the package with the fixed templates, `stand_in` one of ours for a model whose own template is not to be
    had here; both are empty for a family whose text a server writes without a template of the directory.
    """

    special: tuple[str, ...]
    plain: tuple[str, ...] = ("<think>", "</think>")
    eos: str = "<|im_end|>"
    template: str = ""
    stand_in: str = ""
    model_type: str = "qwen3"


class Dialect(Protocol):
    """One family."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Its tokens and template."""

    @property
    def reasoning_parser(self) -> str:
        """SGLang's name of the parser that `parse` imitates."""

    @property
    def tool_call_parser(self) -> str:
        """The same for tool calls."""

    def write(self, said: Answer, thought: str) -> str:
        """A turn as it is sampled behind the generation prompt, without the token that ends it."""

    def end(self, said: Answer) -> str:
        """The token that ends it."""

    def parse(self, text: str, names: set[str], calls_allowed: bool) -> Message:
        """The assistant message of a sampled text, its end token removed. `names` are the declared tools."""


def message(content: str, reasoning: str, calls: list[tuple[str, dict[str, Any]]]) -> Message:
    """An assistant message as SGLang returns it: content is never null, absent reasoning is."""
    made: Message = {"role": "assistant", "content": content, "reasoning_content": reasoning or None}
    if calls:
        made["tool_calls"] = [
            {
                "id": f"call_{uuid.uuid4().hex[:24]}",
                "index": index,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for index, (name, arguments) in enumerate(calls)
        ]
    return made


def opened(text: str) -> tuple[str, str]:
    """Thinking and rest of a text whose thinking the prompt has opened. Without an end all of it is thinking."""
    while text.startswith("<think>"):
        text = text.removeprefix("<think>")
    thought, closed, rest = text.partition("</think>")
    return (thought, rest) if closed else (thought, "")


def plain_text(value: Any) -> str:
    """A call's argument where the syntax has no quotes: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
