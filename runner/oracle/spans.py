"""The prompts of one path cut into what was appended and what was sampled, turn by turn.

The cut follows from the records alone: a prompt begins with the prompt before it and what was sampled then, less the
few tokens that a family's join may trim. Whether that is so is judged elsewhere; here a broken prompt is cut where it
would have been whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from runner.agents.records import Record
from runner.oracle.tokens import first_difference


@dataclass(frozen=True)
class Piece:
    """Ids `[start, end)` of a prompt. `turn` counts records from 0: whose appended or sampled tokens they are."""

    turn: int
    sampled: bool
    start: int
    end: int


def joints(records: Sequence[Record], max_trim: int) -> list[int]:
    """For each record the index in its prompt at which its own appended part begins."""
    starts = [0]
    for before, after in pairwise(records):
        whole = [*before.input_ids, *before.output_ids]
        kept = first_difference(whole, after.input_ids[: len(whole)])
        lowest = len(whole) - max_trim
        starts.append(min(len(after.input_ids), len(whole) if kept is None or kept < lowest else kept))
    return starts


def pieces(records: Sequence[Record], starts: Sequence[int], position: int) -> list[Piece]:
    """The prompt of `records[position]` in pieces: appended, sampled, appended, ..., in order and without gaps.

    `starts` are its `joints`. A prompt that is too short for its past has empty pieces at its end.
    """
    length = len(records[position].input_ids)
    found: list[Piece] = []
    for turn in range(position + 1):
        end = len(records[turn].input_ids) if turn < position else length
        found.append(Piece(turn, False, min(starts[turn], length), min(end, length)))
        if turn < position:
            found.append(Piece(turn, True, min(end, length), min(starts[turn + 1], length)))
    return found
