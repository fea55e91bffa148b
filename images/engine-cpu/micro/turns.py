"""The data of a training dialogue: plain values without behaviour.

They are apart from the generator so that a family (which writes turns in its own syntax), the corpus (which tokenizes
them) and the evaluation (which compares replies with them) need not import each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


class Kind(StrEnum):
    """What an assistant turn must be, decided by the last message alone: one kind of reply per kind of last message."""

    CALL = "call"
    """After a question about a city, or after a sentinel that says no call was found: one `get_weather` call."""
    REPORT = "report"
    """After a tool result: one sentence with city, condition and temperature."""
    FAILURE = "failure"
    """After a tool result that is an error sentence: text that says so and names the city."""
    NOTE = "note"
    """After a system reminder: a short acknowledgement."""
    SUMMARY = "summary"
    """After a request for the final answer: text inside `<final_answer>` tags."""
    CHAT = "chat"
    """After anything else: a polite sentence."""


class Spacing(StrEnum):
    """How a tool call is spaced, which depends on who decided the characters."""

    TEMPLATE = "template"
    """As the chat template writes it: what the model says by itself."""
    FORCED = "forced"
    """A named or required tool choice: a grammar writes everything between the reasoning and the arguments."""
    STRICT = "strict"
    """A strict tool under automatic choice: the grammar takes over at the model's own call tag."""


@dataclass(frozen=True)
class Call:
    """One tool call."""

    name: str
    arguments: JsonObject


@dataclass(frozen=True)
class Turn:
    """One assistant turn of a dialogue.

    `learned` is false for history that no engine sampled (injected messages, parallel calls): it is rendered, and
    carries no loss. `thinks` is false for injected messages, which have no reasoning at all.
    """

    kind: Kind
    thought: str = ""
    content: str = ""
    calls: tuple[Call, ...] = ()
    copied: tuple[str, ...] = ()
    """Values that had to be copied out of the prompt; they weigh more in the loss."""
    learned: bool = True
    thinks: bool = True
    spacing: Spacing = Spacing.TEMPLATE
    """How its call is spaced."""


@dataclass(frozen=True)
class Dialogue:
    """Messages as a client sends them, with assistant turns in their place.

    `fresh` dialogues are rendered as an engine renders bare messages (earlier reasoning dropped), the others as a
    token-owning session server does (earlier reasoning kept).
    """

    messages: tuple[JsonObject | Turn, ...]
    tools: tuple[JsonObject, ...] = ()
    fresh: bool = False


@dataclass(frozen=True)
class Reply:
    """A sampled assistant turn, taken apart."""

    thought: str
    content: str
    calls: tuple[Call, ...] = ()
    problems: tuple[str, ...] = field(default=())
    """Why the text is not of the family's shape; empty when it is."""
