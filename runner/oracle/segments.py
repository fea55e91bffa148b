"""Two token sequences compared segment by segment, split at special tokens.

In assistant turns texts are compared, not ids: sampled tokens need not be the canonical split of their text. Outside of
them nothing was sampled, so that every character counts, white space included, and the same text must be the same
tokens: what is tokenized apart from its surroundings may come out in another split.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from runner.oracle.tokens import Tokens

COUNT: Final = "special_token_count"
TYPE: Final = "special_token_type"
OTHER_TEXT: Final = "non_assistant_text"
OTHER_SPLIT: Final = "non_assistant_split"
ASSISTANT_TEXT: Final = "assistant_text"
_OPENER_TOKENS: Final = 20
"""Tokens of a segment in which its opener is looked for."""


@dataclass(frozen=True)
class Segment:
    """A run of ids between special tokens, or one special token. `start` is its place in the sequence."""

    start: int
    ids: list[int]
    special: bool


@dataclass(frozen=True)
class SegmentDiff:
    """One difference. `position` counts segments from 0, -1 where the sequences have different segments.

    `expected` and `actual` are the segments, or the first ones that do not fit together; None where a sequence ended.
    """

    type: str
    position: int
    expected: Segment | None
    actual: Segment | None


def split(ids: Sequence[int], boundaries: Collection[int], inside: Collection[int] = ()) -> list[Segment]:
    """The segments of `ids`; each boundary id is one of its own, but for those at the indices `inside`."""
    segments: list[Segment] = []
    run: list[int] = []
    for index, token_id in enumerate(ids):
        if token_id not in boundaries or index in inside:
            run.append(token_id)
            continue
        if run:
            segments.append(Segment(index - len(run), run, special=False))
            run = []
        segments.append(Segment(index, [token_id], special=True))
    if run:
        segments.append(Segment(len(ids) - len(run), run, special=False))
    return segments


def trimmed(ids: Sequence[int], trailing: Collection[int]) -> list[int]:
    """`ids` without the trailing ones."""
    end = len(ids)
    while end and ids[end - 1] in trailing:
        end -= 1
    return list(ids[:end])


def compare(
    expected: Sequence[int],
    actual: Sequence[int],
    boundaries: Collection[int],
    assistant: str | None,
    tokens: Tokens,
    *,
    mark: str = "",
    inside: Collection[int] = (),
) -> list[SegmentDiff]:
    """All differences; the number or pattern of segments, where it differs, is the only one that can be told.

    `mark` is a text that `expected` has for itself; the boundary ids at the indices `inside` of `actual` split nothing.
    """
    left, right = split(expected, boundaries), split(actual, boundaries, inside)
    if [segment.special for segment in left] != [segment.special for segment in right]:
        at = next(
            (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if _unlike(a, b)), min(len(left), len(right))
        )
        return [SegmentDiff(COUNT, -1, left[at] if at < len(left) else None, right[at] if at < len(right) else None)]
    diffs: list[SegmentDiff] = []
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if a.special:
            if a.ids != b.ids:
                diffs.append(SegmentDiff(TYPE, position, a, b))
        elif a.ids != b.ids:
            same = unmarked(tokens.decode(a.ids), mark) == tokens.decode(b.ids)
            sampled = _opens(left, position, assistant, tokens) and _opens(right, position, assistant, tokens)
            if not sampled:
                diffs.append(SegmentDiff(OTHER_SPLIT if same else OTHER_TEXT, position, a, b))
            elif not same:
                diffs.append(SegmentDiff(ASSISTANT_TEXT, position, a, b))
    return diffs


def unmarked(text: str, mark: str) -> str:
    """The text without the mark."""
    return text.replace(mark, "") if mark else text


def _unlike(left: Segment, right: Segment) -> bool:
    return left.special != right.special or (left.special and left.ids != right.ids)


def _opens(segments: Sequence[Segment], position: int, assistant: str | None, tokens: Tokens) -> bool:
    """Whether this is an assistant's segment: the special token before it and its own beginning say so."""
    if assistant is None or position == 0 or not segments[position - 1].special:
        return False
    opening = segments[position - 1].ids + segments[position].ids[:_OPENER_TOKENS]
    return tokens.decode(opening).startswith(assistant)
