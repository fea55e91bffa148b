"""Encoding by pieces gives the tokenizer's own ids, or is not used."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.tito import expression
from session_server.tito.pieces import Pieces
from session_testing.tokenizers import QWEN_PLAIN, QWEN_SPECIALS, byte_level, sentencepiece_like
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
MARKS = QWEN.replace(r"]?\p{L}+", r"]?[\p{L}\p{M}]+").replace(r"\s\p{L}\p{N}]+", r"\s\p{L}\p{M}\p{N}]+")
CASES = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]+[\p{Ll}\p{M}]*| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split_by(expression: str | None) -> Tokenizer:
    """A byte-level tokenizer that cuts with `expression`; None: with the one that ByteLevel brings."""
    tokenizer = byte_level(QWEN_SPECIALS, QWEN_PLAIN)
    if expression is not None:
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(expression), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    return tokenizer


def encoder(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    return encode


SHAPES = {"gpt2": None, "qwen": QWEN, "llama": LLAMA, "marks": MARKS, "cases": CASES}


@pytest.fixture(scope="module", params=SHAPES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return split_by(SHAPES[request.param])


@pytest.fixture(scope="module")
def pieces(tokenizer: Tokenizer) -> Pieces:
    made = Pieces.of(tokenizer, encoder(tokenizer))
    assert made is not None
    return made


WIDE = [
    *(
        "Grüße",
        "Straße",
        "été",
        "'été",
        "l’eau",
        "L'ÉTÉ",
        "'ß",
        "'ſ",
        "'ſS",
        "İi",
        "ıI",
        "Ångström",
        "\u212b",
        "ﬆ",
        "ŉ",
    ),
    *(
        "東京",
        "天気は",
        "サーバ",
        "か\u3099",
        "서울",
        "\u1112\u1161\u11ab",
        "한",
        "МОСКВА",
        "й",
        "и\u0306",
        "Ελλάδα",
        "ΐ",
    ),
    *("שלום", "مرحبا", "مَ", "नमस्ते", "ไทย", "Việt", "Vie\u0323\u0302t", "e\u0301", "\u0301", "a\u0327\u0301", "ǅ"),
    *(
        "٣٤",
        "½",
        "²",
        "Ⅷ",
        "５",
        "①",
        "𝟘",
        "१२",
        "\u00a0",
        "\u00a0\u00a0",
        "\u2003 ",
        "\u202f",
        "\u3000",
        "\u2028",
        "\u2029",
    ),
    *(
        "\u0085",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\u00ad",
        "\ufffd",
        "\U000e0001",
        "\U0010ffff",
        "\ue000",
        "\ud7a4",
        "龦",
        "㐀",
        "𠀀",
    ),
    *("🙂", "👍🏽", "❤\ufe0f", "👩\u200d💻", "🇩🇪", "«", "»", "“it’s”", "…", "—", "€", "，", "。", "」"),
]
FRAGMENTS = [
    *(*QWEN_SPECIALS, *QWEN_PLAIN, "<|im_", "<think", "</", "<", "|>"),
    *("don't", "WE'LL", "'S", "'", "HTTPServer2", "12345", "3.14", "get_weather", "Beijing"),
    *(" ", "  ", "\n", "\r\n", "\n\n ", "\t", "\x0b", "\x0c", "\x1c", "\x00", "\x7f", "\x85", "\xa0"),
    *("naïve", "e\u0301", "東京", "🙂", "Ǆ", "ſ", "\u212a", "²", "٣", "\u2028", "a" * 100),
]


@given(
    text=st.one_of(
        st.text(),
        st.text(st.characters(max_codepoint=127)),
        st.text(st.sampled_from(expression.wide().sample())),
        st.lists(st.sampled_from(FRAGMENTS)).map("".join),
        st.lists(st.sampled_from([*WIDE, *WIDE, *FRAGMENTS])).map("".join),
    )
)
def test_ids_are_the_tokenizers_own(tokenizer: Tokenizer, pieces: Pieces, text: str) -> None:
    expected = encoder(tokenizer)(text)
    assert pieces.encode(text) == expected
    assert pieces.encode(text) == expected, "what is remembered differs from what was learnt"


def test_every_character_of_the_alphabet_is_encoded_as_the_tokenizer_does_it(
    tokenizer: Tokenizer, pieces: Pieces
) -> None:
    """Behind and before a letter, a digit, a space, an apostrophe, a sign, a line's end and itself."""
    chars = [chr(code) for run in expression.wide().runs for code in range(run.first, run.last + 1)]
    assert len(chars) > 30_000
    asked: list[str] = []
    quick = Pieces.of(tokenizer, lambda text: asked.append(text) or encoder(tokenizer)(text))  # type: ignore[func-returns-value]
    assert quick is not None
    asked.clear()
    for start in range(0, len(chars), 500):
        text = "".join(f"a{char}1{char} {char}'{char}!{char}{char}\n{char} " for char in chars[start : start + 500])
        assert quick.encode(text) == encoder(tokenizer)(text)
    assert asked == [], "the slow way was compared with itself"


@pytest.mark.parametrize("text", ["Weather?", "naïve 東京, größer – l’été 🙂"])
def test_text_of_the_alphabet_does_not_go_through_the_pipeline(text: str) -> None:
    tokenizer = split_by(QWEN)
    asked: list[str] = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return encoder(tokenizer)(text)

    pieces = Pieces.of(tokenizer, encode)
    assert pieces is not None
    asked.clear()
    pieces.encode(f"<|im_start|>user\n{text}<|im_end|>\nnai\u0308ve<|im_end|>")
    assert asked == ["\nnai\u0308ve"]


def test_a_character_that_the_engines_class_differently_takes_the_wide_alphabet_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = split_by(QWEN)
    category = unicodedata.category
    monkeypatch.setattr(unicodedata, "category", lambda char: "So" if char == "é" else category(char))
    pieces = Pieces.of(tokenizer, encoder(tokenizer))
    assert pieces is not None
    assert pieces._cut_wide is None
    assert pieces.encode("un été, été") == encoder(tokenizer)("un été, été")
    monkeypatch.setattr(unicodedata, "category", lambda char: "So" if char == "e" else category(char))
    monkeypatch.setattr("session_server.tito.pieces.ASCII", expression.Alphabet([(0, 0x7F)]))
    assert Pieces.of(tokenizer, encoder(tokenizer)) is None


def test_a_tokenizer_that_disagrees_on_wide_text_only_keeps_ascii() -> None:
    tokenizer = split_by(QWEN)
    other = Pieces.of(tokenizer, lambda text: [*encoder(tokenizer)(text), *([] if text.isascii() else [0])])
    assert other is not None
    assert other._cut_wide is None
    same = Pieces.of(tokenizer, encoder(tokenizer))
    assert same is not None
    assert same._cut_wide is not None


def test_of_two_added_tokens_the_longer_one_is_found() -> None:
    tokenizer = split_by(QWEN)
    tokenizer.add_tokens([AddedToken("<t", normalized=False), AddedToken("<tool", normalized=False)])
    pieces = Pieces.of(tokenizer, encoder(tokenizer))
    assert pieces is not None
    for text in ("<tool_call>", "<tool", "<tool_", "<to", "a<t<tool<tool_call>b"):
        assert pieces.encode(text) == encoder(tokenizer)(text)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("session_server.tito.pieces._REMEMBERED", 8)
    tokenizer = split_by(QWEN)
    pieces = Pieces.of(tokenizer, encoder(tokenizer))
    assert pieces is not None
    for number in range(50):
        text = f"w{chr(97 + number % 26)}x{chr(97 + number // 26)} " + "z" * 1000
        assert pieces.encode(text) == encoder(tokenizer)(text)
        assert len(pieces._known) <= 8
        assert max(map(len, pieces._known)) <= 64


def change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda shape: shape.update(fields)


def change_model(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda shape: shape["model"].update(fields)


def change_token(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda shape: shape["added_tokens"][-1].update(fields)


def change_cut(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda shape: shape["pre_tokenizer"]["pretokenizers"][0].update(fields)


def change_bytes(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda shape: shape["pre_tokenizer"]["pretokenizers"][1].update(fields)


SHORTENED = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(change(normalizer={"type": "Lowercase"}), id="text is changed first"),
        pytest.param(change_model(dropout=0.1), id="merges are left out at random"),
        pytest.param(change_token(lstrip=True), id="an added token takes the space before it"),
        pytest.param(change_token(rstrip=True), id="an added token takes the space behind it"),
        pytest.param(change_token(single_word=True), id="an added token only where it is a word"),
        pytest.param(change_token(normalized=True), id="an added token found in normalized text"),
        pytest.param(change_cut(behavior="Removed"), id="what is cut with is dropped"),
        pytest.param(change_cut(invert=True), id="what is between is cut out"),
        pytest.param(change_cut(pattern={"String": " "}), id="cut with a string"),
        pytest.param(change_cut(pattern={"Regex": r"\w+|\W+"}), id="a class that depends on Unicode"),
        pytest.param(change_bytes(add_prefix_space=True), id="a space is put first"),
        pytest.param(change_bytes(use_regex=True), id="cut twice"),
        pytest.param(change(truncation=SHORTENED), id="ids are cut off"),
    ],
)
def test_other_tokenizers_are_left_alone(change: Callable[[dict[str, Any]], None]) -> None:
    shape = json.loads(split_by(QWEN).to_str())
    change(shape)
    tokenizer = Tokenizer.from_str(json.dumps(shape))
    assert Pieces.of(tokenizer, encoder(tokenizer)) is None


def test_other_models_are_left_alone() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert Pieces.of(tokenizer, encoder(tokenizer)) is None
    sentences = sentencepiece_like(("<s>",))
    assert Pieces.of(sentences, encoder(sentences)) is None
    assert Pieces.of(None, lambda text: []) is None


def test_a_tokenizer_that_disagrees_is_left_alone() -> None:
    tokenizer = split_by(QWEN)
    assert Pieces.of(tokenizer, lambda text: [*encoder(tokenizer)(text), 0]) is None
    # a shape that is understood, but a token that its own pipeline does not find where it is written
    tokenizer.add_tokens([AddedToken("Beijing", normalized=False)])
    assert Pieces.of(tokenizer, encoder(split_by(QWEN))) is None
