"""A byte-level BPE of the family's form, trained on the corpus.

Byte-level BPE has many token sequences for one text, which is the property that a token-exact server must survive, so
the micro tokenizer is a real one and not a list of words. It differs from the published one in its pre-tokenizer:
values that the model copies (capitalised names, conditions, numbers) are cut from the space or quote before them, so
that they are the same tokens in prose and in JSON.
"""

# tokenizers leaves these calls untyped; everything that is ours is checked.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from micro.families import Family
from micro.turns import JsonObject
from micro.wordings import CONDITIONS

SIZE = 2048
"""Entries before the added tokens."""
ROWS = 64
"""The embedding's rows are a multiple of this."""
CONTEXT = 8192


def train(texts: Iterable[str], family: Family) -> Tokenizer:
    """Train a tokenizer on `texts` and append the family's added tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    values = "|".join(CONDITIONS)
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
        rf"|(?:{values})(?!\p{{L}})"
        r"|\p{Lu}\p{Ll}+"
        rf"|[^\r\n\p{{L}}\p{{N}}]?(?!\p{{Lu}}\p{{Ll}}|(?:{values})(?!\p{{L}}))\p{{L}}+"
        r"|\p{N}{1,2}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([_added(token, special=True) for token in family.special_tokens])
    tokenizer.add_tokens([_added(token, special=False) for token in family.plain_tokens])
    return tokenizer


def _added(text: str, special: bool) -> AddedToken:
    return AddedToken(text, normalized=False, special=special)


def rows(tokenizer: Tokenizer) -> int:
    """Rows of the embedding: the vocabulary, rounded up to a multiple of `ROWS`."""
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    return -(-size // ROWS) * ROWS


def identifier(tokenizer: Tokenizer, token: str) -> int:
    """The id of `token`. Raises ValueError where the vocabulary has none."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no token {token!r}; was it trained for another family?")
    return int(found)


def save(tokenizer: Tokenizer, family: Family, directory: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json; the chat template comes as a file of its own."""
    tokenizer.save(str(directory / "tokenizer.json"))
    added: dict[str, JsonObject] = {}
    for token in (*family.special_tokens, *family.plain_tokens):
        added[str(identifier(tokenizer, token))] = {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token in family.special_tokens,
        }
    configuration = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": family.end,
        "errors": "replace",
        "model_max_length": CONTEXT,
        "pad_token": family.pad,
        "split_special_tokens": False,
        # The generic class keeps the pre-tokenizer of tokenizer.json; family classes build their own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps(configuration, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(directory: Path) -> Tokenizer:
    """The tokenizer of a model directory."""
    return Tokenizer.from_file(str(directory / "tokenizer.json"))
