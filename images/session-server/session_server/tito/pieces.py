"""Encoding of ASCII text by its pieces: what a byte-level BPE tokenizer does to each piece is looked up, not redone.

Such a tokenizer cuts text at its added tokens, then with a regular expression, and encodes every piece by itself: the
ids of a piece never depend on its neighbours. The tokenizer's own pipeline tracks offsets per character and costs five
times as much as cutting with `re` and looking the pieces up; the merges of a new piece still come from its own model.

Only for what is certain to be the same: a closed list of tokenizer shapes and of regular expression syntax, ASCII text
(where Unicode classes are short lists and normal forms change nothing), and a tokenizer that agreed on a text in which
every pair of ASCII characters occurs. Everything else is left to the tokenizer: `Pieces.of` then gives None.
"""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

_ASCII = [chr(code) for code in range(128)]
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What `ByteLevel` cuts with when it is told to use its own expression."""

_REMEMBERED = 32_768
"""Pieces that are kept; all are forgotten when there are more."""

_LONGEST = 64
"""Characters of the longest piece that is kept: longer ones are seldom seen twice."""

Encode = Callable[[str], list[int]]


class Pieces:
    """Encodes text as `encode`, which the tokenizer offers, does; ASCII text quickly."""

    def __init__(self, backend: Any, cut: re.Pattern[str], added: Mapping[str, int], encode: Encode) -> None:
        self._tokenize = backend.model.tokenize
        self._cut = cut.findall
        self._added = added
        longest_first = sorted(added, key=len, reverse=True)
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first))})").split if added else None
        self._encode = encode
        self._known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, backend: Any, encode: Encode) -> Pieces | None:
        """Pieces for the `tokenizers.Tokenizer` behind `encode`; None where they could give other ids."""
        if backend is None or backend.truncation is not None or backend.padding is not None:
            return None
        shape = json.loads(backend.to_str())
        pattern = _expression(shape)
        cut = None if pattern is None else ascii_pattern(pattern)
        if cut is None:
            return None
        pieces = cls(backend, cut, {token["content"]: token["id"] for token in shape["added_tokens"]}, encode)
        return pieces if all(pieces.encode(text) == encode(text) for text in _probes(pieces._added)) else None

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, `[n_tokens]`."""
        if self._split is None:
            return self._segment(text)
        ids: list[int] = []
        for index, part in enumerate(self._split(text)):
            if index % 2:
                ids.append(self._added[part])
            elif part:
                ids += self._segment(part)
        return ids

    def _segment(self, text: str) -> list[int]:
        """Ids of text without added tokens."""
        if not text.isascii():
            return self._encode(text)
        pieces = self._cut(text)
        # what the expression skips would be a piece, too
        if sum(map(len, pieces)) != len(text):
            return self._encode(text)
        known = self._known
        ids: list[int] = []
        for piece in pieces:
            found = known.get(piece)
            ids += self._learn(piece) if found is None else found
        return ids

    def _learn(self, piece: str) -> tuple[int, ...]:
        ids = tuple(token.id for token in self._tokenize(piece.translate(_VISIBLE)))
        if len(piece) <= _LONGEST:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[piece] = ids
        return ids


def _visible() -> dict[int, str]:
    """How byte-level tokenizers write ASCII bytes: printable ones as they are, the others from U+0100 on."""
    hidden = [code for code in range(128) if not 33 <= code <= 126]
    return {code: chr(256 + index) for index, code in enumerate(hidden)}


_VISIBLE = _visible()


def _expression(shape: Mapping[str, Any]) -> str | None:
    """The one regular expression that a tokenizer of this shape cuts with; None when it does anything else as well."""
    if shape["normalizer"] not in (None, {"type": "NFC"}):
        return None
    model = shape["model"]
    if model["type"] != "BPE" or model["dropout"]:
        return None
    if any(model[key] for key in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")):
        return None
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    if any(not token["content"] or any(token[flag] for flag in flags) for token in shape["added_tokens"]):
        return None
    # neither adds an id where no special tokens are asked for
    if any(step["type"] not in ("ByteLevel", "TemplateProcessing") for step in _steps(shape, "post_processor")):
        return None
    steps = _steps(shape, "pre_tokenizer")
    last = steps[-1] if steps else {}
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    if len(steps) == 1:
        return _GPT2 if last["use_regex"] else None
    if len(steps) > 2 or last["use_regex"] or steps[0]["type"] != "Split":
        return None
    split: Mapping[str, Any] = steps[0]
    expression = split["pattern"].get("Regex")
    if split["behavior"] != "Isolated" or split["invert"] or not isinstance(expression, str):
        return None
    return expression


def _steps(shape: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """What `key` of a tokenizer does, one after the other."""
    whole = shape[key]
    if whole is None:
        return []
    inner = {"pre_tokenizer": "pretokenizers", "post_processor": "processors"}[key]
    steps: list[dict[str, Any]] = whole[inner] if whole["type"] == "Sequence" else [whole]
    return steps


_STEP = re.compile(
    r"""
      (?P<category> \\p\{[A-Z][a-z]?\} )
    | (?P<escape>   \\[srntSvf] | \\[^\w\s] )
    | (?P<group>    \(\?(?:i?:|!|=) | \) )
    | (?P<open>     \[\^? )
    | (?P<close>    \] )
    | (?P<repeat>   (?:[?*+]|\{\d+(?:,\d*)?\})(?![?*+{]) )
    | (?P<literal>  [\w\s|'"!#%&,/:;<=>@`~-] )
    """,
    re.VERBOSE | re.ASCII,
)
"""What is understood of an expression; it means the same to Oniguruma and to `re`."""


def ascii_pattern(expression: str) -> re.Pattern[str] | None:
    """The Oniguruma `expression` for ASCII text; None when it has anything that could mean something else to `re`."""
    written: list[str] = []
    inside = False
    at = 0
    while at < len(expression):
        step = _STEP.match(expression, at)
        if step is None:
            return None
        text, kind = step[0], step.lastgroup
        if inside and (kind in ("group", "open") or text == "&"):
            # nested classes and intersections, or a bracket that is a plain character here
            return None
        if kind == "open":
            inside = True
        elif kind == "close":
            if not inside:
                return None
            inside = False
        elif kind == "category":
            text = _members(text[3:-1])
            text = text if inside else f"[{text}]" if text else "(?!)"
        elif kind == "repeat" and inside and text != "+" and text not in "?*":
            return None
        written.append(text)
        at = step.end()
    try:
        pattern = re.compile("".join(written), re.ASCII)
    except re.error:
        return None
    return None if inside or pattern.groups or pattern.match("") else pattern


def _members(category: str) -> str:
    """The ASCII characters of a Unicode category, as ranges of a character class."""
    members = "".join(char if unicodedata.category(char).startswith(category) else "\n" for char in _ASCII)
    return "".join(f"\\x{ord(run[0]):02x}-\\x{ord(run[-1]):02x}" for run in members.split("\n") if run)


def _probes(added: Mapping[str, int]) -> list[str]:
    """Texts on which both ways must agree: every pair of ASCII characters, words, numbers, and the added tokens."""
    pairs = "".join(f"{left}{right}" for left in _ASCII for right in _ASCII)
    words = "Don't we'LL I'm, say: x=10.50; \r\n\r\n\tif (a[1] != 'b')\n    return  12345   \n it's HTTPServer2go don'"
    return [pairs, words, f"{string.printable} ".join(["", *added, ""]), " a ".join(added), words * 2]
