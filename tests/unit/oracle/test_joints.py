"""Text that nobody sampled must be tokenized as a part of the whole, whatever kind of tokenizer the family has.

A server that tokenizes appended messages by themselves gets other tokens from tokenizers that treat the beginning of a
text in their own way (SentencePiece writes a space before it). The text reads the same; no later prompt contradicts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from runner.base.terms import Lane
from runner.ledger.records import Severity
from runner.oracle.segments import OTHER_SPLIT, compare
from runner.oracle.tokens import Tokens
from tests.unit.matrix.bench import Codec, drive, model_of
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
    """One word of the first tool result in two tokens, from its turn on: every count and every text is right."""
    tokens = session.tokens
    first = session.view.records[0]
    joint = len(first.input_ids) + len(first.output_ids)
    appended = session.view.records[1].input_ids[joint:]
    word = joint + next(at for at, token in enumerate(appended) if tokens.decode([token]) == "condition")

    def split(snapshot: dict[str, Any]) -> None:
        later = snapshot["records"][1:]
        for ids in [
            *(record["request"]["input_ids"] for record in later),
            snapshot["metadata"]["accumulated_token_ids"],
        ]:
            assert tokens.decode([ids[word]]) == "condition"
            ids[word : word + 1] = [*tokens.encode("cond"), *tokens.encode("ition")]
        for record in later:
            added = len(tokens.encode("cond")) + len(tokens.encode("ition")) - 1
            for counts in (record["response"]["usage"], record["response"]["choices"][0]["meta_info"]):
                counts["prompt_tokens"] += added

    findings = [finding for finding in session.judged(split) if finding.severity == "hard"]
    (finding,) = [finding for finding in findings if finding.check == "render"]
    assert {other.type for other in findings} <= {OTHER_SPLIT, "client_usage"}, "the client was told the old counts"
    assert (finding.type, finding.turn, finding.role) == (OTHER_SPLIT, session.transcript.path[1].turn, "tool")
    assert "the same text in" in finding.message
    assert finding.diff is not None
    assert finding.diff.token_index == word
    assert tokens.decode([finding.diff.expected_id or 0]) == "condition"
    assert finding.diff.actual_ids[8] == tokens.encode("cond")[0]


def test_a_stop_token_that_opens_the_next_turn_and_is_kept_comes_twice(tmp_path: Path) -> None:
    """GLM-4.7 ends a turn with the opener of the next one; a server that keeps it has it before the template's own."""

    def kept(codec: Codec) -> None:
        codec._drop_last = frozenset()

    row = drive("glm47", model_of("glm47", tmp_path), tmp_path, lanes=[Lane.V2_OPENAI], spoil=kept)
    found = [finding for finding in row.findings(Lane.V2_OPENAI, Severity.HARD) if finding.check == "render"]
    assert row.outcomes() == {Lane.V2_OPENAI: "hard"}
    assert [finding.type for finding in found] == ["special_token_count"]
    diff = found[0].diff
    assert diff is not None
    assert diff.actual_text == "<|observation|>", "the render goes on with the result here"
