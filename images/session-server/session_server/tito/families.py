"""The model families: which template each uses, what may follow a generation, and how the joint is made.

Pure data. A *joint* is what the family's template writes between the last sampled token and the next message: Qwen-like
models stop at `<|im_end|>` and the template then writes a newline; GLM stops at the token that opens the next message,
so that token must not be counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

EVERY_ROLE = frozenset({"tool", "user", "system", "assistant"})
NO_SYSTEM = frozenset({"tool", "user", "assistant"})


class Encoder(StrEnum):
    """What turns messages into text."""

    JINJA = "jinja"
    DEEPSEEK_V32 = "deepseek_v32"
    DEEPSEEK_V4 = "deepseek_v4"


@dataclass(frozen=True, slots=True)
class Family:
    """One row.

    `template` names a fixed template, of the package or (`own_template`) of this server; None means the checkpoint's
    own. `newline_after` is the token behind
    which the joint adds a newline; `drop_last` are tokens that the joint drops (at most one: `max_trim_tokens`).
    `trailing` is trimmed from both ends before comparing. `boundaries` are the only tokens that split segments (None:
    every special token, less `not_boundaries`). `alternatives` are template arguments that say the same thing, so
    that one replaces the others.
    """

    name: str
    class_name: str
    template: str | None = None
    own_template: bool = False
    fixed_kwargs: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    append_roles: frozenset[str] = EVERY_ROLE
    newline_after: str | None = None
    drop_last: tuple[str, ...] = ()
    trailing: tuple[str, ...] = ()
    assistant_start: str | None = None
    boundaries: tuple[str, ...] | None = None
    not_boundaries: tuple[str, ...] = ()
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    encoder: Encoder = Encoder.JINJA
    alternatives: tuple[str, ...] = ()

    @property
    def max_trim_tokens(self) -> int:
        """Trailing ids of a snapshot that the next prompt may lack."""
        return 1 if self.drop_last else 0


def _qwen(name: str, class_name: str, template: str | None, **fields: Any) -> Family:
    row: dict[str, Any] = {
        "fixed_kwargs": MappingProxyType({"clear_thinking": False}),
        "newline_after": "<|im_end|>",
        "trailing": ("\n",),
        "assistant_start": "<|im_start|>assistant",
        "reasoning_parser": "qwen3",
        "tool_call_parser": "qwen25",
    }
    return Family(name, class_name, template, **(row | fields))


def _kimi(name: str, class_name: str, template: str | None, **fields: Any) -> Family:
    return Family(
        name,
        class_name,
        template,
        fixed_kwargs=MappingProxyType({"preserve_thinking": True}),
        assistant_start="<|im_assistant|>",
        not_boundaries=("<|im_middle|>",),
        **fields,
    )


def _minimax(name: str, class_name: str, template: str) -> Family:
    return Family(
        name,
        class_name,
        template,
        fixed_kwargs=MappingProxyType({"clear_thinking": False}),
        append_roles=NO_SYSTEM,
        newline_after="[e~[",
        trailing=("\n",),
        assistant_start="]~b]ai",
        reasoning_parser="minimax-append-think",
        tool_call_parser="minimax-m2",
    )


def _deepseek(name: str, class_name: str, encoder: Encoder, **fields: Any) -> Family:
    return Family(
        name,
        class_name,
        fixed_kwargs=MappingProxyType({"drop_thinking": False}),
        assistant_start="<｜Assistant｜>",
        boundaries=("<｜User｜>", "<｜Assistant｜>"),
        encoder=encoder,
        alternatives=("thinking_mode", "enable_thinking", "thinking"),
        **fields,
    )


_ROWS = (
    Family("default", "TITOTokenizer"),
    _qwen("qwen3", "Qwen3TITOTokenizer", "qwen3_fixed.jinja"),
    _qwen(
        "qwen35",
        "Qwen35TITOTokenizer",
        "qwen3.5_fixed.jinja",
        append_roles=NO_SYSTEM,
        tool_call_parser="qwen3_coder",
    ),
    # Qwen3.6 speaks Qwen3.5's dialect; what its own template adds is an option to drop history, which is never wanted
    _qwen(
        "qwen36",
        "Qwen36TITOTokenizer",
        "qwen3.5_fixed.jinja",
        append_roles=NO_SYSTEM,
        tool_call_parser="qwen3_coder",
    ),
    _qwen("qwennext", "QwenNextTITOTokenizer", "qwen3_thinking_2507_and_next_fixed.jinja"),
    Family(
        "glm47",
        "GLM47TITOTokenizer",
        fixed_kwargs=MappingProxyType({"clear_thinking": False}),
        drop_last=("<|user|>", "<|observation|>"),
        trailing=("<|user|>", "<|observation|>"),
        assistant_start="<|assistant|>",
        reasoning_parser="glm45",
        tool_call_parser="glm47",
    ),
    _qwen(
        "nemotron3",
        "Nemotron3TITOTokenizer",
        None,
        fixed_kwargs=MappingProxyType({"truncate_history_thinking": False}),
        assistant_start="<|im_start|>assistant\n",
        reasoning_parser="nemotron_3",
        tool_call_parser="qwen3_coder",
    ),
    _kimi("kimi25", "Kimi25TITOTokenizer", "kimi_k25_fixed.jinja"),
    _kimi("kimi26", "Kimi26TITOTokenizer", None, reasoning_parser="kimi_k2", tool_call_parser="kimi_k2_raw_id"),
    _minimax("minimax_m25", "MinimaxM25TITOTokenizer", "minimax_m25_fixed.jinja"),
    _minimax("minimax_m27", "MinimaxM27TITOTokenizer", "minimax_m27_fixed.jinja"),
    _deepseek(
        "deepseekv32",
        "DeepSeekV32TITOTokenizer",
        Encoder.DEEPSEEK_V32,
        reasoning_parser="deepseek-v3",
        tool_call_parser="deepseekv32",
    ),
    _deepseek(
        "deepseekv4",
        "DeepSeekV4TITOTokenizer",
        Encoder.DEEPSEEK_V4,
        append_roles=NO_SYSTEM,
        trailing=("<｜Assistant｜>", "<think>", "</think>"),
        reasoning_parser="deepseek-v4",
        tool_call_parser="deepseekv4",
    ),
    Family(
        "inkling",
        "InklingTITOTokenizer",
        "inkling.jinja",
        own_template=True,
        assistant_start="<|message_model|>",
        boundaries=("<|message_user|>", "<|message_model|>", "<|message_system|>", "<|message_tool|>"),
        reasoning_parser="inkling",
        tool_call_parser="inkling",
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({row.name: row for row in _ROWS})


def find(name: str) -> Family:
    """The family of that name.

    Raises:
        ValueError: there is none; the message lists the known names.
    """
    try:
        return FAMILIES[name]
    except KeyError:
        raise ValueError(f"unknown model family {name!r}; known: {', '.join(FAMILIES)}") from None
