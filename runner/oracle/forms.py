"""The canonical form of a family's conversations: what the re-render needs to know, as data.

Only names and flags; no template text is kept here. A family that is missing cannot be rendered again; `no_form` says
why, and the oracle says that the check is not applicable instead of passing it silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue


class Encoder(StrEnum):
    """What writes a family's conversations."""

    TEMPLATE = "template"
    DEEPSEEK_V4 = "deepseek_v4"
    INKLING = "inkling"


@dataclass(frozen=True)
class Form:
    """One row.

    `encoder` writes the conversation. Where that is a template, `template` is the bundled fixed template's file name,
    None where the model's own is used, and `arguments` go to it. `assistant` opens an assistant segment. `trailing`
    tokens are cut from both ends before comparing. `inside` are special tokens that lie within a turn and so split
    nothing; `boundaries`, where given, are the only tokens that split.
    """

    template: str | None = None
    arguments: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))
    assistant: str | None = None
    trailing: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    boundaries: tuple[str, ...] | None = None
    encoder: Encoder = Encoder.TEMPLATE


def _kept(name: str, value: bool) -> Mapping[str, JsonValue]:
    return MappingProxyType({name: value})


_KEEP_THINKING = _kept("clear_thinking", False)
_CHATML = "<|im_start|>assistant"

FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "qwen3": Form("qwen3_fixed.jinja", _KEEP_THINKING, _CHATML, ("\n",)),
        "qwen35": Form("qwen3.5_fixed.jinja", _KEEP_THINKING, _CHATML, ("\n",)),
        "qwen36": Form("qwen3.5_fixed.jinja", _KEEP_THINKING, _CHATML, ("\n",)),
        "qwennext": Form("qwen3_thinking_2507_and_next_fixed.jinja", _KEEP_THINKING, _CHATML, ("\n",)),
        "glm47": Form(None, _KEEP_THINKING, "<|assistant|>", ("<|user|>", "<|observation|>")),
        "nemotron3": Form(None, _kept("truncate_history_thinking", False), f"{_CHATML}\n", ("\n",)),
        "kimi25": Form(
            "kimi_k25_fixed.jinja", _kept("preserve_thinking", True), "<|im_assistant|>", inside=("<|im_middle|>",)
        ),
        "kimi26": Form(None, _kept("preserve_thinking", True), "<|im_assistant|>", inside=("<|im_middle|>",)),
        "minimax_m25": Form("minimax_m25_fixed.jinja", _KEEP_THINKING, "]~b]ai", ("\n",)),
        "minimax_m27": Form("minimax_m27_fixed.jinja", _KEEP_THINKING, "]~b]ai", ("\n",)),
        "deepseekv4": Form(
            assistant="<｜Assistant｜>",
            trailing=("<｜Assistant｜>", "<think>", "</think>"),
            boundaries=("<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
            encoder=Encoder.DEEPSEEK_V4,
        ),
        "inkling": Form(
            assistant="<|message_model|>",
            boundaries=(
                *("<|message_user|>", "<|message_model|>", "<|message_system|>", "<|message_tool|>"),
                "<|content_model_end_sampling|>",
            ),
            encoder=Encoder.INKLING,
        ),
    }
)
"""By the name of the token-in-token-out family. The token that ends a turn is always a boundary: what a joint writes
behind it was not sampled, and belongs to no assistant."""

_REASONS: Final = MappingProxyType(
    {
        "deepseekv32": "DeepSeek V3.2 has no chat template, and no writer of its own here",
    }
)


def no_form(tito_model: str) -> str:
    """Why this family has no canonical form, as the end of a sentence; empty where it has one."""
    if tito_model in FORMS:
        return ""
    return _REASONS.get(tito_model, f"no form is written down for {tito_model!r}")
