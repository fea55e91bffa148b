"""Token ids, kept compact: four bytes each, and what two turns of a session share is kept once.

Lists of Python integers would cost nine times as much, and a copy of the whole history for every turn would make both
the time of a turn and the memory of a session grow with what was said before.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

TokenIds: TypeAlias = "array[int]"
"""Token ids, `[n_tokens]`."""


def pack(ids: Iterable[int] = ()) -> TokenIds:
    """`ids` as a compact array, `[n_tokens]`.

    Raises:
        OverflowError: an id does not fit into 32 bits.
        TypeError: an id is not an integer.
    """
    return array("i", ids)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The ids of a conversation up to a point, `[n_tokens]`: the first `kept` of `base`, then `own`. Never changes."""

    own: TokenIds = field(default_factory=pack)
    base: Snapshot | None = None
    kept: int = 0

    def __len__(self) -> int:
        return self.kept + len(self.own)

    def continued(self, ids: TokenIds, *, dropped: int = 0) -> Snapshot:
        """All but the last `dropped` of these, then `ids`."""
        return Snapshot(ids, self, max(0, len(self) - dropped))

    def extended(self, ids: TokenIds) -> Snapshot:
        """These, then `ids`, as one step from `base`."""
        return Snapshot(self.own + ids, self.base, self.kept)

    def behind(self, start: int) -> TokenIds:
        """The ids from index `start` on, `[n_tokens - start]`."""
        parts: list[TokenIds] = []
        step: Snapshot | None = self
        end = len(self)
        while step is not None and end > start:
            if end > step.kept:
                parts.append(step.own[max(0, start - step.kept) : end - step.kept])
                end = step.kept
            step = step.base
        if len(parts) == 1:
            return parts[0]
        ids = pack()
        for part in reversed(parts):
            ids.extend(part)
        return ids

    def ids(self) -> TokenIds:
        """All of them, `[n_tokens]`, as a copy."""
        return self.behind(0)

    @property
    def last(self) -> int | None:
        """The last id; None when there is none."""
        last = self.behind(len(self) - 1)
        return last[-1] if last else None


def begins_with(ids: TokenIds, prefix: TokenIds, *, without_last: int = 0) -> bool:
    """Whether `prefix`, less its `without_last` trailing ids, starts `ids`."""
    length = max(0, len(prefix) - without_last)
    # compared as bytes: arrays and memoryviews compare item by item
    return len(ids) >= length and memoryview(ids)[:length].tobytes().startswith(memoryview(prefix)[:length])


def common_length(left: TokenIds, right: TokenIds) -> int:
    """Number of leading ids that are equal."""
    limit = min(len(left), len(right))
    for index in range(limit):
        if left[index] != right[index]:
            return index
    return limit
