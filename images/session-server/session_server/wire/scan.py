"""Where a list ends in JSON text, found in one pass over its brackets and strings.

Nothing is checked: of text that is no JSON the answer is of no use, and whoever asks parses what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

_MARKS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)
_COLON = re.compile(rb"[ \t\n\r]*:")
_MOST = 500_000
"""Strings and brackets after which the search is given up: a text of so many is not worth the time that it takes."""
_OPEN, _CLOSE = b"[{", b"]}"


@dataclass(frozen=True, slots=True)
class Found:
    """Indices of a list that is a field of the outermost object: its key's, and those of its brackets."""

    key: int
    start: int
    end: int


def _marks(text: bytes) -> Iterator[re.Match[bytes]]:
    for number, mark in enumerate(_MARKS.finditer(text)):
        if number == _MOST:
            return
        yield mark


def list_end(text: bytes) -> int | None:
    """Index of the bracket that ends the list in which `text` begins; None where it is not found."""
    depth = 1
    for mark in _marks(text):
        first = text[mark.start()]
        if first in _OPEN:
            depth += 1
        elif first in _CLOSE:
            depth -= 1
            if depth == 0:
                return mark.start()
    return None


def find_list(text: bytes, name: str) -> Found | None:
    """The list that the field `name` of an object is; of several the last one; None where it is not found."""
    depth, key, start = 0, -1, -1
    found: Found | None = None
    for mark in _marks(text):
        at = mark.start()
        first = text[at]
        if first in _OPEN:
            depth += 1
            if depth == 2 and key >= 0:
                start, found = at, None
        elif first in _CLOSE:
            depth -= 1
            if depth == 1 and key >= 0:
                found, key = (Found(key, start, at) if text[at] == _CLOSE[0] else None), -1
            elif depth == 0:
                return found
        elif depth == 1 and _COLON.match(text, mark.end()):
            key = at if orjson.loads(mark[0]) == name else -1
            found = None if key >= 0 else found
    return None
