"""Encoding of text by its pieces: what a byte-level BPE tokenizer does to each piece is looked up, not redone.

Such a tokenizer cuts text at its added tokens, then with a regular expression, and encodes every piece by itself: the
ids of a piece never depend on its neighbours. The tokenizer's own pipeline tracks offsets per character and costs five
times as much as cutting with `re` and looking the pieces up; the merges of a new piece still come from its own model.

Only for what is certain to be the same: a closed list of tokenizer shapes and of regular expression syntax, text of an
alphabet that no normal form changes (`tito.expression`: ASCII, and a wide one with the letters of the larger scripts),
and a tokenizer whose own engine has the same characters in every class and which agreed on probes of both. Everything
else is left to the tokenizer: `Pieces.of` then gives None.
"""

from __future__ import annotations

import codecs
import json
import re
import string
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from tokenizers import Regex, pre_tokenizers

from session_server.tito.expression import ASCII, Alphabet, Translation, translate, wide

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What `ByteLevel` cuts with when it is told to use its own expression."""

_REMEMBERED = 32_768
"""Pieces that are kept; all are forgotten when there are more."""

_LONGEST = 64
"""Characters of the longest piece that is kept: longer ones are seldom seen twice."""

Encode = Callable[[str], list[int]]


class Pieces:
    """Encodes text as `encode`, which the tokenizer offers, does; most text quickly."""

    def __init__(self, backend: Any, ascii_only: re.Pattern[str], added: Mapping[str, int], encode: Encode) -> None:
        self._tokenize = backend.model.tokenize
        self._cut_ascii = ascii_only.findall
        # there is a second one only where it agrees, too
        self._cut_wide: Callable[[str], list[str]] | None = None
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
        expression = _expression(shape)
        found = None if expression is None else translate(expression, ASCII)
        if expression is None or found is None or not _agrees(found, ASCII):
            return None
        added = {token["content"]: token["id"] for token in shape["added_tokens"]}
        pieces = cls(backend, found.pattern, added, encode)
        if not pieces._encodes(_probes(added)):
            return None
        pieces._widen(expression)
        return pieces

    def _widen(self, expression: str) -> None:
        alphabet = wide()
        found = translate(expression, alphabet)
        if found is None or not _agrees(found, alphabet):
            return
        self._cut_wide = found.pattern.findall
        if not self._encodes(_wide_probes(alphabet)):
            self._cut_wide = None

    def _encodes(self, texts: Iterable[str]) -> bool:
        """Whether both ways give the same ids for all of `texts`."""
        return all(self.encode(text) == self._encode(text) for text in texts)

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
        cut = self._cut_ascii if text.isascii() else self._cut_wide
        if cut is None:
            return self._encode(text)
        pieces = cut(text)
        # a character outside of the alphabet is in no piece; what an expression skips would be a piece, too
        if sum(map(len, pieces)) != len(text):
            return self._encode(text)
        known = self._known
        ids: list[int] = []
        for piece in pieces:
            found = known.get(piece)
            ids += self._learn(piece) if found is None else found
        return ids

    def _learn(self, piece: str) -> tuple[int, ...]:
        visible, _ = codecs.charmap_decode(piece.encode(), "strict", _VISIBLE)
        ids = tuple(map(_ID, self._tokenize(visible)))
        if len(piece) <= _LONGEST:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[piece] = ids
        return ids


def _visible() -> str:
    """How byte-level tokenizers write bytes: the printable ones of Latin-1 as they are, the others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(hidden)) for byte in range(0x100))


_VISIBLE = _visible()
_ID = attrgetter("id")


def _agrees(translation: Translation, alphabet: Alphabet) -> bool:
    """Whether the tokenizers' own engine has the same characters of `alphabet` in every class of an expression."""
    text = "".join(alphabet.sample())
    for source, ranges in translation.classes.items():
        without = pre_tokenizers.Split(Regex(f"(?:{source})+"), "removed").pre_tokenize_str(text)
        if "".join(part for part, _ in without) != (re.sub(f"[{ranges}]+", "", text) if ranges else text):
            return False
    return True


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


def _probes(added: Mapping[str, int]) -> list[str]:
    """Texts on which both ways must agree: every pair of ASCII characters, words, numbers, and the added tokens."""
    chars = ASCII.sample()
    pairs = "".join(f"{left}{right}" for left in chars for right in chars)
    words = "Don't we'LL I'm, say: x=10.50; \r\n\r\n\tif (a[1] != 'b')\n    return  12345   \n it's HTTPServer2go don'"
    return [pairs, words, f"{string.printable} ".join(["", *added, ""]), " a ".join(added), words * 2]


def _wide_probes(alphabet: Alphabet) -> list[str]:
    """The same for a wider alphabet: every character somewhere, every pair of kinds of characters, words."""
    kinds = [*"aZs0 \n\r\t'!_/", "ß", *{run.category: chr(run.first) for run in alphabet.runs}.values()]
    pairs = "".join(f"{left}{right}" for left in kinds for right in kinds)
    words = (
        "L'été, c’est ça\u00a0: «\u202fÀ 20,50\u00a0€ » größer: 東京の天気は晴れ、25度。 ٣٤ ½ it’s naïve'S "
        "🙂👍\ufe0f\u2028\n Ελλάδα МОСКВА 서울 שלום\u3000مرحبا"
    )
    return [pairs, words, "".join(alphabet.sample()), " '".join(alphabet.sample()), words * 2]
