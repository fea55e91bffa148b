"""The checkpoint's tokenizer, reduced to what the server needs: exact encode and decode, special ids, limits.

Loaded through `transformers` because the engine loads it that way, or without it where that is the same (`tito.plain`).
Encoding and decoding then go to the fast backend directly where there is one, after a check that both agree, and ASCII
text by its pieces where that is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from session_server.core.tokens import TokenIds, pack
from session_server.tito import plain
from session_server.tito.pieces import Pieces

_PROBES = ("", "\n", "Hello, world!", " two  spaces\n\n", "naïve 東京 🙂", '{"a": [1, 2.5, null]}')


class TokenizerError(ValueError):
    """The tokenizer directory cannot be used; the message names what is wrong with it."""


class Vocabulary:
    """Encode, decode and the special ids of one checkpoint.

    `size` is the number of ids that the model has rows for: an id at or above it must never reach the engine. `layers`
    is the model's number of layers, None when its config does not say. `end_ids` are those with which a generation ends
    by itself, as far as the tokenizer says.
    """

    def __init__(self, tokenizer: Any, *, size: int, layers: int | None = None) -> None:
        self._tokenizer = tokenizer
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        self.size = size
        self.layers = layers
        special = zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
        self._special_texts = {int(token_id): str(token) for token_id, token in special}
        self._special_texts |= {
            int(token_id): token.content for token_id, token in tokenizer.added_tokens_decoder.items() if token.special
        }
        self.special_ids = frozenset(self._special_texts)
        end = tokenizer.eos_token_id
        self.end_ids = frozenset() if end is None else frozenset({int(end)})
        self._check_backend()
        self._pieces = Pieces.of(self._backend, self._encode)
        self._anchor_id = min(self.special_ids, default=None)
        self._closed = max(tokenizer.get_vocab().values(), default=-1) < size

    @classmethod
    def load(cls, directory: Path, *, trust_remote_code: bool) -> Vocabulary:
        """Read the tokenizer of the checkpoint in `directory`.

        Raises:
            TokenizerError: the directory is missing or its tokenizer cannot be read.
        """
        if not directory.is_dir():
            raise TokenizerError(f"tokenizer directory {directory} does not exist")
        # remote code may say something else about a checkpoint than its files do
        tokenizer = None if trust_remote_code else plain.read(directory)
        if tokenizer is None:
            tokenizer = _transformers_tokenizer(directory, trust_remote_code=trust_remote_code)
        config = _model_config(directory)
        return cls(tokenizer, size=config.get("vocab_size", len(tokenizer)), layers=config.get("num_hidden_layers"))

    def _check_backend(self) -> None:
        if self._backend is None:
            return
        for probe in _PROBES:
            if self._encode(probe) != self._tokenizer.encode(probe, add_special_tokens=False):
                self._backend = None
                return

    def _encode(self, text: str) -> list[int]:
        if self._backend is not None:
            # the batch call without offsets costs half of the plain one
            ids: list[int] = self._backend.encode_batch_fast([text], add_special_tokens=False)[0].ids
        else:
            ids = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def encode(self, text: str) -> TokenIds:
        """Ids of `text`, `[n_tokens]`; special tokens written in it count, none is added."""
        return pack(self._ids(text))

    def _ids(self, text: str) -> list[int]:
        return self._encode(text) if self._pieces is None else self._pieces.encode(text)

    def encode_behind(self, last_id: int | None, text: str) -> TokenIds:
        """Ids of `text` where it stands behind the token `last_id`, `[n_tokens]`.

        Text alone and text behind something can be cut differently: SentencePiece-like tokenizers put a space before
        the first word. So `text` is encoded behind a special token, which nothing merges with: the last one if it is
        special, else any.
        """
        anchor_id = last_id if last_id in self.special_ids else self._anchor_id
        if anchor_id is None:
            return self.encode(text)
        ids = self._ids(self._special_texts[anchor_id] + text)
        return pack(ids[1:]) if ids and ids[0] == anchor_id else self.encode(text)

    def decode(self, token_ids: list[int], skip_special_tokens: bool = False) -> str:
        """Text of `token_ids` with nothing cleaned up."""
        if self._backend is not None:
            text: str = self._backend.decode(token_ids, skip_special_tokens=skip_special_tokens)
        else:
            text = self._tokenizer.decode(
                token_ids, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
            )
        return text

    def token_id(self, token: str) -> int:
        """Id of one token given by its text.

        Raises:
            TokenizerError: the tokenizer does not have it as a single token.
        """
        ids = self.encode_behind(None, token).tolist()
        if len(ids) != 1:
            raise TokenizerError(f"the tokenizer has no single token {token!r} (it encodes to {ids})")
        return ids[0]

    def first_outside(self, ids: TokenIds) -> int | None:
        """First of `ids` that the model has no row for; None when all are inside."""
        if not ids or (min(ids) >= 0 and max(ids) < self.size):
            return None
        return next(token_id for token_id in ids if not 0 <= token_id < self.size)

    @property
    def closed(self) -> bool:
        """Whether the model has a row for every id that the tokenizer can give."""
        return self._closed

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """Names that chat templates may print, such as `bos_token`."""
        return {
            name: str(token) for name, token in self._tokenizer.special_tokens_map.items() if isinstance(token, str)
        }

    @property
    def chat_template(self) -> str | None:
        """The checkpoint's own chat template."""
        template = self._tokenizer.chat_template
        if isinstance(template, dict):
            template = template.get("default")
        return template if isinstance(template, str) else None


def _transformers_tokenizer(directory: Path, *, trust_remote_code: bool) -> Any:
    """The tokenizer as the engine loads it."""
    # imported here: it takes seconds that only some checkpoints need
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=trust_remote_code)
    except Exception as error:  # the parser of tokenizer.json raises nothing narrower, remote code anything
        raise TokenizerError(f"cannot load a tokenizer from {directory}: {error}") from error


def _model_config(directory: Path) -> dict[str, int]:
    """The integers of the model's config.json; empty when there is none."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TokenizerError(f"cannot read {directory / 'config.json'}: {error}") from error
    text_config = config.get("text_config")
    merged = {**text_config, **config} if isinstance(text_config, dict) else config
    return {key: value for key, value in merged.items() if type(value) is int}
