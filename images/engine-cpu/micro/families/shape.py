"""What the trainer must know about a model family, and nothing more.

Chat templates are not part of it: the template is rendered, never re-implemented. A family only says how one assistant
turn is written after the generation prompt, because the template cannot write the spacing that a tool grammar forces.
"""

from __future__ import annotations

from typing import Protocol

from micro.turns import JsonObject, Reply, Turn


class Family(Protocol):
    """The shape of one family's tokens and text."""

    @property
    def name(self) -> str:
        """The family's name, as in `--family`."""

    @property
    def template(self) -> str:
        """File name of the fixed chat template in the `miles_tito_tokenizers` package."""

    @property
    def template_options(self) -> dict[str, bool]:
        """Template arguments with which a session server renders (earlier reasoning kept)."""

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Added tokens that are special (skipped when decoding for people), in the order of their ids."""

    @property
    def plain_tokens(self) -> tuple[str, ...]:
        """Added tokens that are ordinary text to a decoder; their ids follow those of `special_tokens`."""

    @property
    def end(self) -> str:
        """The token that ends an assistant turn."""

    @property
    def pad(self) -> str:
        """The token that fills the right end of a batch."""

    @property
    def opening(self) -> str:
        """What the template writes before the content of a turn whose reasoning is kept and empty."""

    @property
    def reasoning_end(self) -> str:
        """The token after which a tool grammar takes over."""

    @property
    def forced(self) -> str:
        """The text that a grammar forces after `reasoning_end` when `get_weather` is a named tool choice."""

    @property
    def seams(self) -> tuple[str, ...]:
        """Parts of `forced` that end where the grammar cuts a token which the model would write by itself."""

    def write(self, turn: Turn) -> str:
        """The text of a turn from the end of the generation prompt up to, not including, `end`."""

    def visible(self, turn: Turn) -> str:
        """The text of a turn whose reasoning the template drops."""

    def parse(self, text: str) -> Reply:
        """Take a sampled turn (without `end`) apart. Never raises: what is wrong is listed in `Reply.problems`."""

    def configuration(self, vocabulary: int, end_id: int, pad_id: int) -> JsonObject:
        """config.json of the micro model: `vocabulary` rows in the embedding."""
