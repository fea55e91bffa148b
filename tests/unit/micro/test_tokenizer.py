"""The committed tokenizer: byte-level BPE of the family's form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from micro import template, vocabulary, wordings
from micro.families import Family
from tokenizers import Tokenizer


def test_several_token_sequences_decode_to_one_text(tokenizer: Tokenizer) -> None:
    text = '{"name": "get_weather", "arguments": {"location": "Beijing"}}'
    whole = tokenizer.encode(text).ids
    for at in range(1, len(text)):
        split = tokenizer.encode(text[:at]).ids + tokenizer.encode(text[at:]).ids
        assert tokenizer.decode(split) == text
    spelled = [index for character in text for index in tokenizer.encode(character).ids]
    assert spelled != whole
    assert tokenizer.decode(spelled) == text


@pytest.mark.parametrize("value", [*wordings.CITIES, *wordings.CONDITIONS, *map(str, wordings.TEMPERATURES)])
def test_a_copied_value_is_the_same_single_token_in_prose_and_in_json(tokenizer: Tokenizer, value: str) -> None:
    (index,) = tokenizer.encode(value).ids
    assert index in tokenizer.encode(f"It is {value}, now.").ids
    assert index in tokenizer.encode(f'{{"location": "{value}"}}').ids


@pytest.mark.parametrize(
    "text", ["Zürich 東京 \u00e9 🌧", "a\r\n\tb  c", "</think>\n\n<tool_call>", "x" * 500, "\x00\x7f"]
)
def test_any_text_survives_encoding_and_decoding(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_tags_are_single_tokens_and_only_control_tokens_are_special(
    tokenizer: Tokenizer, family: Family, directory: Path, tmp_path: Path, chat_template: str
) -> None:
    from transformers import AutoTokenizer

    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    (tmp_path / template.FILE).write_text(chat_template, encoding="utf-8")
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.eos_token == family.end
    assert loaded.pad_token == family.pad
    assert loaded.chat_template == chat_template
    ids = [loaded.convert_tokens_to_ids(token) for token in (*family.special_tokens, *family.plain_tokens)]
    assert ids == list(range(ids[0], ids[0] + len(ids))), "added tokens follow the vocabulary in the family's order"
    assert loaded.decode(ids, skip_special_tokens=True) == "".join(family.plain_tokens)
    text = "<|im_start|>user\nWhat's the weather in Beijing?<|im_end|>\n"
    assert loaded.encode(text, add_special_tokens=False) == tokenizer.encode(text).ids


def test_the_embedding_has_a_row_for_every_id(tokenizer: Tokenizer, directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    assert config["vocab_size"] == vocabulary.rows(tokenizer)
    assert config["vocab_size"] >= tokenizer.get_vocab_size(with_added_tokens=True)


def test_a_token_that_is_not_there_is_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="no token '<nope>'"):
        vocabulary.identifier(tokenizer, "<nope>")
