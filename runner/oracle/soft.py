"""Soft differences, told apart: harmless forms of the same assistant turn, and changed content.

A family may write every tool call otherwise than its template does, and yet no word may change. So only `content`
counts against the limit for changed content; the other classes say what kind of form it was.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Final

from runner.oracle.match import typed


class SoftClass(StrEnum):
    """What differs between the canonical text of an assistant turn and the sampled one."""

    CONTENT = "content"
    TOOL_CALL = "tool_call_serialization"
    REASONING = "reasoning_boundary"
    WHITESPACE = "whitespace_only"


_CALLS: Final = re.compile(
    r"<tool_call>(.*?)</tool_call>"
    r"|<minimax:tool_call>(.*?)</minimax:tool_call>"
    r"|<\|tool_calls_section_begin\|>(.*?)<\|tool_calls_section_end\|>"
    r"|<｜DSML｜tool_calls>(.*?)</｜DSML｜tool_calls>"
    r"|<\|content_invoke_tool_json\|>(.*?)<\|end_message\|>",
    re.DOTALL,
)
_EMPTY_THINKING: Final = re.compile(r"<think>\s*</think>")
_AROUND_THINKING: Final = re.compile(r"\s*(</?think>)\s*")
_SPACES: Final = re.compile(r"\s+")


def classify(expected: str, actual: str) -> SoftClass:
    """The gravest class that applies to two different texts of one assistant turn."""
    calls = _read_calls(expected), _read_calls(actual)
    if calls[0] != calls[1]:
        return SoftClass.CONTENT
    left, right = _without_calls(expected), _without_calls(actual)
    if _level(left) != _level(right):
        return SoftClass.CONTENT
    if [found.group() for found in _CALLS.finditer(expected)] != [found.group() for found in _CALLS.finditer(actual)]:
        return SoftClass.TOOL_CALL
    return SoftClass.REASONING if _edges(left) == _edges(right) else SoftClass.WHITESPACE


def _read_calls(text: str) -> list[object]:
    """The calls by what they say: JSON by its value, other syntaxes by their text without spacing at tag edges."""
    return [_value(next(group for group in found.groups() if group is not None)) for found in _CALLS.finditer(text)]


def _value(call: str) -> object:
    try:
        return typed(json.loads(call))
    except ValueError:
        return re.sub(r"\s*(<[^<>]*>)\s*", r"\1", call.strip())


def _without_calls(text: str) -> str:
    """Each call stands as a mark, so that text cannot move across it unseen; the spacing around it is its own."""
    return re.sub(r"\s*\0\s*", "\0", _CALLS.sub("\0", text))


def _edges(text: str) -> str:
    """The text without white space next to thinking tags, and without empty thinking."""
    return _AROUND_THINKING.sub(r"\1", _EMPTY_THINKING.sub("", text)).strip()


def _level(text: str) -> str:
    """The text with every run of white space as one space."""
    return _SPACES.sub(" ", _edges(text))
