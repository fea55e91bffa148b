"""Token ids, kept compact: four bytes each, compared as memory.

A session of sixty turns holds sixty snapshots of its ids; lists of Python integers would cost nine times as much.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
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
