"""A tokenizer that is its `tokenizer.json` and nothing more, read without `transformers`, whose import takes seconds.

`transformers` decides by the class that a checkpoint names, by the model's type and by what else lies beside the file
whether it takes the file as it is, adds to it or builds another tokenizer from parts of it. Only a checkpoint of which
nothing but the first is possible is read here: a closed list of classes, model types, entries and files. Of every other
one nothing is said (`read` gives None) and `transformers` decides.

What is not here: whether the tokenizer suits the family. That is the codec's question, as for any tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

_CLASSES = frozenset({"PreTrainedTokenizerFast", "TokenizersBackend"})

_MODEL_TYPES = frozenset(
    {
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "glm4_moe",
        "glm4_moe_lite",
        "minimax_m2",
        "nemotron_h",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
    }
)
"""Types for which `transformers` follows a checkpoint that names one of `_CLASSES`; for others it may know better."""

_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

_WITHOUT_EFFECT = frozenset(
    {
        "add_bos_token",
        "add_eos_token",
        "add_prefix_space",
        "backend",
        "clean_up_tokenization_spaces",
        "errors",
        "model_input_names",
        "model_max_length",
        "padding_side",
    }
)
"""Entries of tokenizer_config.json that change nothing where the file is taken as it is and no special token is added
on encoding."""

_BESIDE = ("added_tokens.json", "special_tokens_map.json", "additional_chat_templates")
"""What may lie in the directory and would be read, too."""


@dataclass(frozen=True, slots=True)
class PlainTokenizer:
    """The part of a `transformers` tokenizer that the vocabulary reads."""

    backend_tokenizer: Tokenizer
    special_tokens_map: Mapping[str, str]
    chat_template: str | None

    @property
    def all_special_tokens(self) -> list[str]:
        """Texts of the named special tokens."""
        return list(dict.fromkeys(self.special_tokens_map.values()))

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of the named special tokens."""
        ids = (self.backend_tokenizer.token_to_id(token) for token in self.all_special_tokens)
        return [token_id for token_id in ids if token_id is not None]

    @property
    def eos_token_id(self) -> int | None:
        """Id with which a text ends; None when the checkpoint names none."""
        eos = self.special_tokens_map.get("eos_token")
        return None if eos is None else self.backend_tokenizer.token_to_id(eos)

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Added tokens by id."""
        return self.backend_tokenizer.get_added_tokens_decoder()

    def get_vocab(self) -> dict[str, int]:
        """Ids by token, added ones included."""
        return self.backend_tokenizer.get_vocab(with_added_tokens=True)

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of `text`, `[n_tokens]`."""
        return self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Text of `token_ids`; no space is ever cleaned up."""
        return self.backend_tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)


def read(directory: Path) -> PlainTokenizer | None:
    """The tokenizer of the checkpoint in `directory`; None where it may be more than its `tokenizer.json`."""
    if any((directory / name).exists() for name in _BESIDE):
        return None
    model = _entries(directory / "config.json")
    if model.get("model_type") not in _MODEL_TYPES or "model_name" in model:
        return None
    shape = _entries(directory / "tokenizer.json")
    if not isinstance(shape.get("added_tokens"), list) or shape.get("truncation") or shape.get("padding"):
        return None
    config = _entries(directory / "tokenizer_config.json")
    named = {name: token for name in _NAMED if (token := config.pop(name, None)) is not None}
    template = _template(directory, config.pop("chat_template", None))
    if config.pop("tokenizer_class", None) not in _CLASSES or config.pop("split_special_tokens", False):
        return None
    # what is declared beside the file must be there already, as it is declared
    added = {str(token.pop("id")): token for token in shape["added_tokens"]}
    listed = config.pop("added_tokens_decoder", {})
    if not isinstance(listed, dict) or any(added.get(token_id) != token for token_id, token in listed.items()):
        return None
    special = [token["content"] for token in added.values() if token["special"]]
    if any(token not in special for token in named.values()) or not isinstance(template, str | None):
        return None
    if not config.keys() <= _WITHOUT_EFFECT:
        return None
    try:
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    except Exception:  # the library raises nothing narrower; who reads the file next says what is wrong with it
        return None
    return PlainTokenizer(tokenizer, named, template)


def _template(directory: Path, entry: object) -> object:
    """The chat template: a file of its own goes before the entry in the tokenizer's config."""
    file = directory / "chat_template.jinja"
    return file.read_text(encoding="utf-8") if file.exists() else entry


def _entries(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none, so that whoever reads it next says what is wrong."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
