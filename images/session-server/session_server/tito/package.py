"""The only module that touches `miles-tito-tokenizers`: its fixed templates, DeepSeek encoders and comparator.

Not used of it: its renderer (it rewrites tool schemas on the way into the prompt) and its continuation (it splits a
tail of several messages and renders each part behind an invented history). Ours are in `tito.jinja` and `tito.family`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from miles_tito_tokenizers.comparator import TokenSeqComparator
from miles_tito_tokenizers.tokenizer import TEMPLATE_DIR

from session_server.core.tokens import TokenIds


class Decoder(Protocol):
    """What the comparator needs of a tokenizer."""

    def decode(self, token_ids: list[int], skip_special_tokens: bool = False) -> str:
        """The exact text of `token_ids`."""
        ...


def template_text(name: str) -> str:
    """Text of a fixed chat template that the package bundles.

    Raises:
        FileNotFoundError: the package has no such template.
    """
    return (Path(TEMPLATE_DIR) / name).read_text(encoding="utf-8")


class Comparison:
    """Compares accumulated ids with the canonical render, segment by segment."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        assistant_start: str | None,
        boundary_ids: Iterable[int],
        trailing_ids: Iterable[int],
    ) -> None:
        self._comparator = TokenSeqComparator(
            decoder,
            assistant_start_str=assistant_start,
            special_token_ids=set(boundary_ids),
            trim_trailing_ids=set(trailing_ids) or None,
        )

    def mismatches(self, expected: TokenIds, actual: TokenIds) -> list[dict[str, Any]]:
        """Differences as `{type, segment_index, expected_text, actual_text, detail}`; empty when there is none."""
        found = self._comparator.compare_sequences(expected.tolist(), actual.tolist())
        return [mismatch.to_dict() for mismatch in found]
