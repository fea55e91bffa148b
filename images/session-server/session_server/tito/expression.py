"""The regular expressions that tokenizers cut with, written for `re` over a closed alphabet.

Tokenizers cut with Oniguruma, by Unicode classes that `re` does not have. Over an alphabet whose characters are known
one by one a class is a list of characters, and lists mean the same to both. A character outside of the alphabet is in
no list, so no match covers it: whoever cuts sees that characters are missing and leaves the text to the tokenizer.

Only a closed list of syntax is understood, of which both engines make the same; anything else gives None.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

_SPACE = "\t\n\x0b\x0c\r"
"""White space that is no separator by its category."""

_SAMPLED = 64
"""Characters of a run that are looked at one by one; of a longer run as many, spread over it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring characters of one category, from `first` to `last`."""

    category: str
    first: int
    last: int

    @property
    def is_space(self) -> bool:
        """Whether `\\s` matches them."""
        return self.category.startswith("Z") or chr(self.first) in _SPACE

    def sample(self) -> Iterator[str]:
        """Some of them, both ends included."""
        length = self.last - self.first + 1
        step = -(-length // _SAMPLED)
        yield from map(chr, range(self.first, self.last, step))
        yield chr(self.last)


_ASCII_RANGE = (0, 0x7F)
_WIDE_RANGES = (
    _ASCII_RANGE,
    (0xA0, 0x17E),  # Latin: French, German, Polish, and so on
    (0x180, 0x233),
    (0x386, 0x3CE),  # Greek
    (0x400, 0x482),  # Cyrillic
    (0x48A, 0x52F),
    (0x5D0, 0x5EA),  # Hebrew, Arabic
    (0x606, 0x64A),
    (0x660, 0x6D3),
    (0x1EA0, 0x1EF9),  # Vietnamese
    (0x2000, 0x2064),  # punctuation, currencies, arrows, signs
    (0x20A0, 0x20BF),
    (0x2100, 0x23FF),
    (0x2460, 0x27BF),
    (0x2900, 0x2AFF),
    (0x3000, 0x30FF),  # Chinese, Japanese, Korean; see _BLOCKS
    (0xFE0F, 0xFE0F),  # emoji
    (0xFF01, 0xFFEE),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F900, 0x1F9FF),
)
_BLOCKS = (Run("Lo", 0x4E00, 0x9FA5), Run("Lo", 0xAC00, 0xD7A3))
"""Ideographs and Hangul: too many to look at one by one whenever a server starts, so a test does."""


class Alphabet:
    """Characters of which everything is known that expressions ask for.

    No normal form changes a text of it: it has no combining marks but one, which nothing composes with. Nor does the
    case of an ASCII letter extend to another character of it.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]], blocks: Iterable[Run] = ()) -> None:
        self.runs = (*_runs(ranges), *blocks)

    def where(self, indexes: Iterable[int]) -> str:
        """The runs of these indexes as ranges of a character class, ordered as given; empty for none."""
        written: list[str] = []
        first = last = -2
        for index in indexes:
            run = self.runs[index]
            if run.first != last + 1:
                if last >= 0:
                    written.append(_range(first, last))
                first = run.first
            last = run.last
        if last >= 0:
            written.append(_range(first, last))
        return "".join(written)

    def sample(self) -> list[str]:
        """Characters of every run."""
        return [char for run in self.runs for char in run.sample()]


def _range(first: int, last: int) -> str:
    return f"\\U{first:08x}-\\U{last:08x}"


def _runs(ranges: Iterable[tuple[int, int]]) -> Iterator[Run]:
    for first, last in ranges:
        for key, group in groupby(range(first, last + 1), key=_kind):
            codes = list(group)
            if key is not None:
                yield Run(key[0], codes[0], codes[-1])


def _kind(code: int) -> tuple[str, int] | None:
    """What a character shares with its neighbours: its category, or for ASCII nothing; None outside of the alphabet."""
    char = chr(code)
    category = unicodedata.category(char)
    if code < 128:
        return category, code
    marked = category.startswith("M") and code != 0xFE0F
    # not assigned, not a character, or changed by a normal form
    if category in ("Cn", "Co", "Cs") or marked or unicodedata.normalize("NFC", char) != char:
        return None
    # without regard to case it may stand for an ASCII letter; sharp s only for two, which `translate` looks after
    if char != "ß" and any(part.isascii() for part in char.casefold() + char.lower() + char.upper()):
        return None
    return category, -1


ASCII = Alphabet([_ASCII_RANGE])
"""The characters of most text that models read and write."""


def wide() -> Alphabet:
    """ASCII, the letters of the larger scripts and what stands between them; nothing that normal forms change."""
    return Alphabet(_WIDE_RANGES, _BLOCKS)


_STEP = re.compile(
    r"""
      (?P<category> \\p\{[A-Z][a-z]?\} )
    | (?P<space>    \\[sS] )
    | (?P<escape>   \\[rntvf] | \\[^\w\s] )
    | (?P<group>    \(\?(?:i?:|!|=) | \) )
    | (?P<open>     \[\^? )
    | (?P<repeat>   (?:[?*+]|\{\d+(?:,\d*)?\})(?![?*+{]) )
    | (?P<either>   \| )
    | (?P<literal>  [\w\ '"!#%&,/:;<=>@`~-] )
    """,
    re.VERBOSE | re.ASCII,
)
"""What is understood of an expression outside of character classes."""

_MEMBER = re.compile(
    r"""
      (?P<category> \\p\{[A-Z][a-z]?\} )
    | (?P<space>    \\[sS] )
    | (?P<range>    (?P<first>[A-Za-z0-9])-(?P<last>[A-Za-z0-9]) )
    | (?P<escape>   \\[rntvf] | \\[^\w\s] )
    | (?P<literal>  [\w\ |'"!\#%,/:;<=>@`~?*+(){}.$] )
    """,
    re.VERBOSE | re.ASCII,
)
"""What is understood inside of one."""

_LETTERS = re.compile(r"\[[A-Za-z]+\]")
"""The only classes that may disregard case."""

_CONTROLS = {"\\r": "\r", "\\n": "\n", "\\t": "\t", "\\v": "\x0b", "\\f": "\x0c"}


@dataclass(frozen=True, slots=True)
class Translation:
    """An expression for `re`, and its character classes: as they were written, and the ranges that they are."""

    pattern: re.Pattern[str]
    classes: dict[str, str]


class _UnknownError(Exception):
    """Something in the expression is not on the list."""


class _Translator:
    """One pass over one expression."""

    def __init__(self, expression: str, alphabet: Alphabet) -> None:
        self._expression = expression
        self._alphabet = alphabet
        self._at = 0
        self._every = frozenset(range(len(alphabet.runs)))
        self._codes = {run.first: index for index, run in enumerate(alphabet.runs) if run.first < 128}
        self.classes: dict[str, str] = {}

    def translate(self) -> tuple[str, str]:
        """The whole expression, and the same without what only looks ahead."""
        written: list[str] = []
        blind: list[str] = []
        # of each open group: whether it disregards case, and whether it only looks ahead
        groups: list[tuple[bool, bool]] = []
        folded = ""
        while self._at < len(self._expression):
            start = self._at
            text, kind = self._next(_STEP)
            disregards = bool(groups) and groups[-1][0]
            unseen = text
            if kind == "group" and text == ")":
                if not groups:
                    raise _UnknownError
                unseen = ")?" if groups.pop()[1] else ")"
            elif kind == "group":
                groups.append((disregards or text == "(?i:", text in ("(?=", "(?!")))
                unseen = "(?:" if groups[-1][1] else text
            elif kind in ("category", "space", "open"):
                members = self._class(negated=text == "[^") if kind == "open" else self._of(text)
                source = self._expression[start : self._at]
                if disregards and not _LETTERS.fullmatch(source):
                    raise _UnknownError
                text = unseen = self._class_text(source, members)
            elif kind == "repeat" and disregards:
                raise _UnknownError
            # two letters in a row that one character may stand for
            folded = folded + text.lower() if disregards and kind == "literal" else ""
            if "ss" in folded:
                raise _UnknownError
            written.append(text)
            blind.append(unseen)
        if groups:
            raise _UnknownError
        return "".join(written), "".join(blind)

    def _next(self, syntax: re.Pattern[str]) -> tuple[str, str]:
        step = syntax.match(self._expression, self._at)
        if step is None or step.lastgroup is None:
            raise _UnknownError
        self._at = step.end()
        return step[0], step.lastgroup

    def _class(self, *, negated: bool) -> frozenset[int]:
        """The members of a character class whose bracket was opened."""
        members: set[int] = set()
        start = self._at
        while not self._expression.startswith("]", self._at):
            text, kind = self._next(_MEMBER)
            if kind in ("category", "space"):
                members |= self._of(text)
            elif kind == "range":
                members |= {self._codes[code] for code in range(ord(text[0]), ord(text[2]) + 1)}
            else:
                members.add(self._codes[ord(_CONTROLS.get(text, text[-1]))])
        if self._at == start:
            raise _UnknownError
        self._at += 1
        return self._every - members if negated else frozenset(members)

    def _of(self, name: str) -> frozenset[int]:
        """The members of `\\p{..}`, `\\s` or `\\S`."""
        runs = enumerate(self._alphabet.runs)
        if name == "\\s":
            return frozenset(index for index, run in runs if run.is_space)
        if name == "\\S":
            return frozenset(index for index, run in runs if not run.is_space)
        return frozenset(index for index, run in runs if run.category.startswith(name[3:-1]))

    def _class_text(self, source: str, members: frozenset[int]) -> str:
        ranges = self._alphabet.where(sorted(members))
        self.classes[source] = ranges
        return f"[{ranges}]" if ranges else "(?!)"


def translate(expression: str, alphabet: Alphabet) -> Translation | None:
    """The Oniguruma `expression` for text of `alphabet`; None when it has anything that could mean something else."""
    translator = _Translator(expression, alphabet)
    try:
        written, blind = translator.translate()
        pattern = re.compile(written, re.ASCII)
        # engines go on differently behind a match of no characters
        empty = re.compile(blind, re.ASCII).match("") is not None
    except (_UnknownError, re.error):
        return None
    return None if empty else Translation(pattern, translator.classes)
