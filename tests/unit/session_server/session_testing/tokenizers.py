"""Small tokenizers of different kinds, trained in the test on a few sentences."""

from __future__ import annotations

import json
import string
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

QWEN_SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN_PLAIN = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

CORPUS = (
    "You are a weather assistant. Use the tool get_weather and answer one question at a time.",
    "What is the weather in Beijing? Now check the weather in Shanghai, please.",
    '{"name": "get_weather", "arguments": {"location": "Beijing"}} {"temperature": 22, "condition": "sunny"}',
    "user assistant system tool dummy system\n\nThe weather in Beijing is sunny with 22 degrees.",
    "naïve 東京 has 25 degrees; Zürich has 18 degrees, partly cloudy 🙂",
)


def byte_level(specials: tuple[str, ...], plain: tuple[str, ...] = (), vocab_size: int = 420) -> Tokenizer:
    """A byte-level BPE tokenizer whose special tokens split segments and whose plain added tokens do not."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain])
    return tokenizer


def save(
    tokenizer: Tokenizer,
    directory: Path,
    *,
    eos: str,
    chat_template: str | None = None,
    rows: int | None = None,
    model_type: str = "qwen3",
) -> Path:
    """Write a checkpoint directory as `transformers` reads it; `rows` is the model's vocabulary (default: padded)."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos, "clean_up_tokenization_spaces": False}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    if chat_template is not None:
        (directory / "chat_template.jinja").write_text(chat_template)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    (directory / "config.json").write_text(
        json.dumps({"model_type": model_type, "vocab_size": size + 16 if rows is None else rows})
    )
    return directory


def qwen_checkpoint(directory: Path) -> Path:
    """A checkpoint directory with Qwen's tokens."""
    return save(byte_level(QWEN_SPECIALS, QWEN_PLAIN), directory, eos="<|im_end|>")


def sentencepiece_like(specials: tuple[str, ...], plain: tuple[str, ...] = ()) -> Tokenizer:
    """A BPE tokenizer that writes spaces as `▁` and puts one before the first word, as SentencePiece does."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
    )
    alphabet = sorted({char for line in CORPUS for char in line} | set(string.printable) | {"▁"})
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=alphabet, special_tokens=["<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain])
    return tokenizer
