"""The runner's own tokenizer, read from the directory that engine and session server use too.

Decoding is for people: it keeps special tokens and shows an id that the vocabulary does not have as `<?id>`. Nothing is
taken from a model hub and no code of a model directory is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from runner.base.errors import InfrastructureError
from runner.oracle.finding import TokenDiff

RADIUS: Final = 8
"""Tokens shown on each side of a difference."""


_UNREAD: Final = ("tiktoken.model", "tokenizer.model")
"""Other vocabularies: Kimi's, whose way to cut text is in code of its model directory, and SentencePiece's."""


class Tokens:
    """A tokenizer with what the oracle asks of it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, directory: Path) -> Tokens:
        """Read `tokenizer.json`. Raises InfrastructureError when it is not there or cannot be read."""
        path = directory / "tokenizer.json"
        if not path.is_file():
            other = next((name for name in _UNREAD if (directory / name).is_file()), None)
            if other is not None:
                raise InfrastructureError(
                    f"{directory} has its tokenizer in {other}, which the verifier does not read: "
                    f"nothing of this family can be judged",
                    hint="put a tokenizer.json with the same vocabulary and special tokens beside it",
                )
            raise InfrastructureError(
                f"no tokenizer at {path}",
                hint="mount the volume 'models' into the runner, or correct the tokenizer path in the families file",
            )
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the Rust side raises bare Exception
            raise InfrastructureError(f"the tokenizer at {path} cannot be read: {error}") from error

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of the tokens that are flagged special."""
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(index for index, token in added.items() if token.special)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` (`[n]`), special tokens included."""
        parts: list[str] = []
        run: list[int] = []
        for token_id in ids:
            if token_id >= 0 and self._tokenizer.id_to_token(token_id) is not None:
                run.append(token_id)
                continue
            parts.append(self._tokenizer.decode(run, skip_special_tokens=False))
            parts.append(f"<?{token_id}>")
            run = []
        parts.append(self._tokenizer.decode(run, skip_special_tokens=False))
        return "".join(parts)

    def visible(self, ids: Sequence[int]) -> str:
        """The text of `ids` (`[n]`) as an engine shows it: without special tokens, and without unknown ids."""
        return self._tokenizer.decode([token_id for token_id in ids if token_id >= 0], skip_special_tokens=True)

    def encode(self, text: str) -> list[int]:
        """The ids of `text` (`[n]`), special tokens recognised and none added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def diff(self, expected: Sequence[int], actual: Sequence[int], index: int) -> TokenDiff:
        """What is around the difference at `index`."""
        near = slice(max(0, index - RADIUS), index + RADIUS + 1)
        return TokenDiff(
            token_index=index,
            expected_id=expected[index] if index < len(expected) else None,
            actual_id=actual[index] if index < len(actual) else None,
            expected_ids=list(expected[near]),
            actual_ids=list(actual[near]),
            expected_text=self.decode(expected[near]),
            actual_text=self.decode(actual[near]),
        )


def first_difference(expected: Sequence[int], actual: Sequence[int]) -> int | None:
    """Where the two stop being equal, or None when they are equal. A sequence that ends early differs at its end."""
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if left != right:
            return index
    return None if len(expected) == len(actual) else min(len(expected), len(actual))
