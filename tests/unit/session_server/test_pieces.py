"""Encoding by pieces gives the tokenizer's own ids, or is not used."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.tito.pieces import Pieces, ascii_pattern
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


FRAGMENTS = [
    *(*QWEN_SPECIALS, *QWEN_PLAIN, "<|im_", "<think", "</", "<", "|>"),
    *("don't", "WE'LL", "'S", "'", "HTTPServer2", "12345", "3.14", "get_weather", "Beijing"),
    *(" ", "  ", "\n", "\r\n", "\n\n ", "\t", "\x0b", "\x0c", "\x1c", "\x00", "\x7f", "\x85", "\xa0"),
    *("naïve", "e\u0301", "東京", "🙂", "Ǆ", "ſ", "\u212a", "²", "٣", "\u2028", "a" * 100),
]


@given(
    text=st.one_of(
        st.text(), st.text(st.characters(max_codepoint=127)), st.lists(st.sampled_from(FRAGMENTS)).map("".join)
    )
)
def test_ids_are_the_tokenizers_own(tokenizer: Tokenizer, pieces: Pieces, text: str) -> None:
    expected = encoder(tokenizer)(text)
    assert pieces.encode(text) == expected
    assert pieces.encode(text) == expected, "what is remembered differs from what was learnt"


def test_ascii_text_does_not_go_through_the_pipeline() -> None:
    tokenizer = split_by(QWEN)
    asked: list[str] = []

    def encode(text: str) -> list[int]:
        asked.append(text)
        return encoder(tokenizer)(text)

    pieces = Pieces.of(tokenizer, encode)
    assert pieces is not None
    asked.clear()
    pieces.encode("<|im_start|>user\nWeather?<|im_end|>\nnaïve<|im_end|>")
    assert asked == ["\nnaïve"]


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


@pytest.mark.parametrize(
    "expression",
    [
        *(r"a++", r"a{2}+", r"a*", r"a{,3}", r"a.b", r"^a", r"a$", r"(a)", r"(?<n>a)", r"\w+", r"\ba", r"\p{Han}+"),
        *(r"[[:alpha:]]", r"[a-z&&[b]]", r"[a"),
    ],
)
def test_expressions_that_may_mean_something_else_are_refused(expression: str) -> None:
    assert ascii_pattern(expression) is None


@pytest.mark.parametrize("expression", [QWEN, LLAMA, MARKS, CASES])
def test_expressions_of_known_families_are_understood(expression: str) -> None:
    assert ascii_pattern(expression) is not None


def test_a_category_without_ascii_characters_matches_nothing() -> None:
    pattern = ascii_pattern(r"\p{M}|a[\p{M}b]")
    assert pattern is not None
    assert pattern.findall("aab") == ["ab"]
