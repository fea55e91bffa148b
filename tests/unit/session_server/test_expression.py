"""Expressions over an alphabet cut as the tokenizers' own engine does, or are not understood."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.tito import expression
from session_server.tito.expression import ASCII, Alphabet, translate
from test_pieces import CASES, LLAMA, MARKS, QWEN
from tokenizers import Regex, pre_tokenizers

WIDE = expression.wide()
ALPHABETS = {"ascii": ASCII, "wide": WIDE}
EVERY = [chr(code) for run in WIDE.runs for code in range(run.first, run.last + 1)]
CONTRACTIONS = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"


def cut(source: str, text: str) -> list[str]:
    """What the tokenizers' engine makes of it."""
    return [part for part, _ in pre_tokenizers.Split(Regex(source), "isolated").pre_tokenize_str(text)]


@pytest.mark.parametrize("source", [QWEN, LLAMA, MARKS, CASES, CONTRACTIONS])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_expressions_of_known_families_are_understood(source: str, alphabet: str) -> None:
    assert translate(source, ALPHABETS[alphabet]) is not None


@pytest.mark.parametrize(
    "source",
    [
        *(r"a++", r"a{2}+", r"a*", r"a{,3}", r"a.b", r"^a", r"a$", r"(a)", r"(?<n>a)", r"\w+", r"\ba", r"\p{Han}+"),
        *(r"[[:alpha:]]", r"[a-z&&[b]]", r"[a", r"[]", r"a)", r"(?:a", r"[a-\p{L}]", r"é", r"[é]", r"a|"),
        *(r"(?i:ss)", r"(?i:aSs)", r"(?i:[^a])", r"(?i:\p{L})", r"(?i:[\p{L}])", r"(?i:\S)", r"(?i:s+)", r"(?i:s{2})"),
        *(r"(?=a)", r"b|(?!\S)", r"(?:a?|b)", r"a?(?=b)", r"(?:(?!a)b?)c?"),
    ],
)
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_expressions_that_may_mean_something_else_are_refused(source: str, alphabet: str) -> None:
    assert translate(source, ALPHABETS[alphabet]) is None


def test_sharp_s_is_why_two_s_without_case_are_refused() -> None:
    """One character that the engine takes for two letters; `re` does not."""
    assert cut(r"(?i:ss)", "aßa") == ["a", "ß", "a"]
    assert translate(r"(?i:s)s", WIDE) is not None
    assert cut(r"(?i:s)s", "aßa") == ["aßa"]


def test_a_category_without_characters_matches_nothing() -> None:
    found = translate(r"\p{M}|a[\p{M}b]", ASCII)
    assert found is not None
    assert found.pattern.findall("aab") == ["ab"]


@pytest.mark.parametrize("category", sorted({run.category for run in WIDE.runs} | {"L", "M", "N", "P", "S", "Z", "C"}))
def test_every_character_is_of_the_category_that_the_engine_has_it_in(category: str) -> None:
    """All of them, the blocks included, of which a start looks at a sample only."""
    found = translate(rf"\p{{{category}}}", WIDE)
    assert found is not None
    text = "".join(EVERY)
    without = pre_tokenizers.Split(Regex(rf"\p{{{category}}}+"), "removed").pre_tokenize_str(text)
    assert "".join(part for part, _ in without) == found.pattern.sub("", text)


def test_no_normal_form_changes_a_text_of_the_alphabet() -> None:
    """Each is its own composed form, and none is what another character composes with."""
    inside = set(EVERY)
    assert all(unicodedata.normalize("NFC", char) == char for char in EVERY)
    assert not any(unicodedata.combining(char) for char in EVERY)
    seconds = set()
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    assert len(seconds) > 50
    assert not inside & seconds
    hangul = {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    assert not inside & hangul


def test_no_other_character_stands_for_an_ascii_letter() -> None:
    text = "".join(char for char in EVERY if not char.isascii())
    for letter in string.ascii_letters:
        assert cut(f"(?i:{letter})", text) == [text]
    assert not {"ſ", "\u212a", "İ", "ı"} & set(EVERY)


def test_the_alphabet_is_what_it_says() -> None:
    assert [chr(run.first) for run in ASCII.runs] == [chr(code) for code in range(128)]
    assert len(EVERY) == len(set(EVERY))
    assert next(char for char in EVERY if not char.isascii()) == "\u00a0"
    assert set("äöüßéèçñÀœŁžαΩжЯשم東京の한، ”€…🙂🚀\ufe0f１") <= set(EVERY)
    assert not set("e\u0301\u3099\u0378\ue000\u212b\u2126\ufeff\U000e0001") & set(EVERY) - {"e"}


def test_a_run_is_seen_at_both_ends_and_a_long_one_in_between() -> None:
    alphabet = Alphabet([(0x41, 0x42)], [expression.Run("Lo", 0x4E00, 0x9FA5)])
    sample = alphabet.sample()
    assert sample[:3] == ["A", "B", "一"]
    assert sample[-1] == "\u9fa5"
    assert 60 < len(sample) < 70


TEXT = st.text(
    st.one_of(st.sampled_from(EVERY), st.sampled_from("aAsStTlL019 \n\r\t'’.,!/ßéЖ東٣½🙂\u00a0\u2003\u2028\ufe0f"))
)


@given(source=st.sampled_from([QWEN, LLAMA, MARKS, CASES, CONTRACTIONS]), text=TEXT)
def test_text_of_the_alphabet_is_cut_as_the_engine_cuts_it(source: str, text: str) -> None:
    found = translate(source, WIDE)
    assert found is not None
    assert found.pattern.findall(text) == cut(source, text)


ATOMS = st.sampled_from(
    [
        *(
            r"\p{L}",
            r"\p{Lu}",
            r"\p{N}",
            r"\p{P}",
            r"\s",
            r"\S",
            r"[^\s\p{L}]",
            r"[\p{L}\p{M}]",
            r"[a-f0-3]",
            r"[^\r\n]",
            "a",
        ),
        *("'", " ", r"\.", r"[\r\n/]", r"(?i:s|l)", "(?i:'t)", r"(?:a|\p{Ll})", r"(?=\p{L})", r"(?!\S)"),
    ]
)
REPEATS = st.sampled_from(["", "", "?", "+", "*", "{2}", "{1,3}"])
SEQUENCES = st.lists(st.tuples(ATOMS, REPEATS), min_size=1, max_size=4)


@given(branches=st.lists(SEQUENCES, min_size=1, max_size=4), text=TEXT)
def test_whatever_is_understood_is_cut_as_the_engine_cuts_it(branches: list[list[tuple[str, str]]], text: str) -> None:
    """Expressions that no tokenizer has, made of the syntax that is understood."""
    source = "|".join(
        "".join(atom if atom.startswith(("(?=", "(?!")) else atom + repeat for atom, repeat in branch)
        for branch in branches
    )
    found = translate(rf"{source}|\s|\S", WIDE)
    if found is not None:
        assert found.pattern.findall(text) == cut(rf"{source}|\s|\S", text)
