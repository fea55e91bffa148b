"""Text that nobody sampled must be tokenized as a part of the whole, whatever kind of tokenizer the family has.

A server that tokenizes appended messages by themselves gets other tokens from tokenizers that treat the beginning of a
text in their own way (SentencePiece writes a space before it). The text reads the same; no later prompt contradicts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from runner.oracle.segments import OTHER_SPLIT, compare
from runner.oracle.tokens import Tokens
from tests.unit.oracle.conftest import Case

SPECIAL = ["<|im_start|>", "<|im_end|>"]
ASSISTANT = "<|im_start|>assistant"
BEFORE = "<|im_start|>user\nWeather in Beijing?<|im_end|>\n<|im_start|>assistant\nIt is sunny.<|im_end|>"
APPENDED = "\n<|im_start|>tool\nIt is sunny in Beijing.<|im_end|>\n<|im_start|>user\nAnd in Paris?<|im_end|>"
CORPUS = [BEFORE, APPENDED, "Weather in Paris is sunny, and so it is in Beijing. And in user tool assistant?"] * 8


def byte_level(space: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def metaspace(scheme: Any, unigram: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram() if unigram else models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    trainer: Any = (
        trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIAL)
        if unigram
        else trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL)
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": lambda: byte_level(space=False),
    "byte-level with a space before": lambda: byte_level(space=True),
    "sentencepiece, space before the first word": lambda: metaspace("first"),
    "sentencepiece unigram, space before the first word": lambda: metaspace("first", unigram=True),
    "sentencepiece, space before every piece": lambda: metaspace("always"),
    "sentencepiece without a space before": lambda: metaspace("never"),
}
TREACHEROUS = {name for name in KINDS if name.endswith("space before the first word")}
"""Kinds in which text by itself is tokenized otherwise than behind something."""


@cache
def tokens_of(kind: str) -> Tokens:
    return Tokens(KINDS[kind]())


def found(kind: str, actual: list[int]) -> list[tuple[str, int]]:
    tokens = tokens_of(kind)
    expected = tokens.encode(BEFORE + APPENDED)
    return [(diff.type, diff.position) for diff in compare(expected, actual, tokens.special_ids, ASSISTANT, tokens)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_joint_that_is_tokenized_with_the_whole_is_no_difference(kind: str) -> None:
    assert found(kind, tokens_of(kind).encode(BEFORE + APPENDED)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_appended_text_that_is_tokenized_by_itself_is_found_where_that_makes_other_tokens(kind: str) -> None:
    tokens = tokens_of(kind)
    apart = [*tokens.encode(BEFORE), *tokens.encode(APPENDED)]
    differs = apart != tokens.encode(BEFORE + APPENDED)
    assert differs is (kind in TREACHEROUS), "the fault is there exactly where the kind of tokenizer makes it"
    at = len([part for part in BEFORE.replace("<|", "\0<|").replace("|>", "|>\0").split("\0") if part])
    assert found(kind, apart) == ([(OTHER_SPLIT, at)] if differs else [])


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_text_may_be_split_in_any_way(kind: str) -> None:
    tokens = tokens_of(kind)
    whole = tokens.encode(BEFORE + APPENDED)
    inside = tokens.encode(BEFORE[: BEFORE.rindex("sunny")] + "s")
    cut = [*inside, *tokens.encode("<|im_end|>unny" + BEFORE[BEFORE.rindex("<|") :] + APPENDED)[1:]]
    if tokens.decode(cut) == tokens.decode(whole) and cut != whole:
        assert found(kind, cut) == []


def test_a_whole_session_with_one_text_tokenized_apart_is_found_with_its_turn_and_tokens(session: Case) -> None:
    """One word of a tool result in two tokens, from its turn on: every count and every text is right."""
    tokens = session.tokens

    def split(snapshot: dict[str, Any]) -> None:
        records = snapshot["records"]
        word = next(
            at for at, token in enumerate(records[1]["request"]["input_ids"]) if tokens.decode([token]) == "Get"
        )
        for ids in [
            *(record["request"]["input_ids"] for record in records),
            snapshot["metadata"]["accumulated_token_ids"],
        ]:
            assert tokens.decode([ids[word]]) == "Get"
            ids[word : word + 1] = [*tokens.encode("G"), *tokens.encode("et")]
        for record in records:
            for counts in (record["response"]["usage"], record["response"]["choices"][0]["meta_info"]):
                counts["prompt_tokens"] += 1

    findings = [
        finding for finding in session.judged(split) if finding.check == "render" and finding.severity == "hard"
    ]
    assert [finding.type for finding in findings] == [OTHER_SPLIT]
    assert "the same text in" in findings[0].message
    diff = findings[0].diff
    assert diff is not None
    assert tokens.decode([diff.expected_id or 0]) == "Get"
    assert diff.expected_text.replace(" ", "") in tokens.decode(diff.expected_ids).replace(" ", "")
