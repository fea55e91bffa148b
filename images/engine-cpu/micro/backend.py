"""What an evaluation samples from: a question of ids in, ids and the parsed reply out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from micro.agents import Choice
from micro.turns import Dialogue, Reply

LIMIT = 120
"""Tokens of a reply at most; the longest right one has about 60."""


@dataclass(frozen=True)
class Request:
    """`ids` is the prompt, `[n_tokens]`; `dialogue` the same history as messages, which parsers and grammars need."""

    ids: list[int]
    dialogue: Dialogue
    choice: Choice


@dataclass(frozen=True)
class Sample:
    """A sampled turn: its ids `[n_tokens]` with the end token, whether it ended by itself, and the parsed reply."""

    ids: list[int]
    ended: bool
    reply: Reply


class Backend(Protocol):
    """A model that can be sampled."""

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """One sample per request, in order."""
