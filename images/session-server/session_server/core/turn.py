"""One committed generation. Both state machines are made of these: v1 keeps one line of them, v2 a forest.

A turn is immutable once committed and points at its parent, so that rolling back is moving a reference and every
earlier turn stays what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from session_server.core.tokens import Snapshot, TokenIds

Message: TypeAlias = dict[str, Any]
"""A chat message in OpenAI form, its content a string or None (text parts already joined)."""

UNFINISHED = frozenset({"length", "abort"})
"""Finish reasons after which the stored tokens end in the middle of a turn."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineRequest:
    """The body of a request to the engine, in pieces of JSON text.

    A turn shares the pieces of its history with the turns before it: the text of a session is written and kept once,
    though every request and every record has all of it. `messages` and `ids` are without their brackets; each piece but
    the first begins with its comma.
    """

    fields: bytes
    messages: tuple[bytes, ...]
    ids: tuple[bytes, ...]

    def pieces(self) -> tuple[bytes, ...]:
        """The body, to be sent one piece behind the other."""
        return (self.fields, b',"messages":[', *self.messages, b'],"input_ids":[', *self.ids, b"]}")

    def content(self) -> bytes:
        """The body in one."""
        return b"".join(self.pieces())


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What went to the engine and what came back, as the bytes that went over the wire.

    `requested_at` and `committed_at` are seconds since the epoch. `tools` are what the prompt was rendered with; the
    request's own text may differ (the engine gets `strict` tools).
    """

    request: EngineRequest
    response: bytes
    requested_at: float
    committed_at: float
    tools: Sequence[dict[str, Any]] | None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Turn:
    """A generation and the messages that led to it since its parent.

    `tokens` `[n_tokens]` is everything up to here: prompt and completion; the completion starts at `completion_start`.
    `seq` numbers the commits of a session from 0.
    """

    seq: int
    parent: Turn | None
    delta: tuple[Message, ...]
    message_count: int
    tokens: Snapshot
    completion_start: int
    finish_reason: str | None
    response_id: str | None
    record: Record

    @property
    def token_ids(self) -> TokenIds:
        """The ids of `tokens`, `[n_tokens]`, as a copy."""
        return self.tokens.ids()

    @property
    def truncated(self) -> bool:
        """Whether the tokens end inside a turn, so that nothing may follow them."""
        return self.finish_reason in UNFINISHED

    @property
    def assistant(self) -> Message:
        """The generated message."""
        return self.delta[-1]

    def path(self) -> list[Turn]:
        """The turns from the root to this one."""
        turns: list[Turn] = []
        turn: Turn | None = self
        while turn is not None:
            turns.append(turn)
            turn = turn.parent
        turns.reverse()
        return turns

    def messages(self) -> list[Message]:
        """All messages from the root up to and including this turn's generated one, as stored."""
        return [message for turn in self.path() for message in turn.delta]

    def messages_behind(self, ancestor: Turn) -> list[Message] | None:
        """The messages behind `ancestor` up to this turn; None when it is not on the path to this turn."""
        deltas: list[tuple[Message, ...]] = []
        turn: Turn | None = self
        while turn is not ancestor:
            if turn is None:
                return None
            deltas.append(turn.delta)
            turn = turn.parent
        return [message for delta in reversed(deltas) for message in delta]


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Where a request attaches: `tail` is what it appends behind `parent` (None: behind nothing)."""

    parent: Turn | None
    tail: tuple[Message, ...]
    tail_start: int

    def turn(
        self,
        *,
        seq: int,
        assistant: Message,
        tokens: Snapshot,
        completion_start: int,
        finish_reason: str | None,
        response_id: str | None,
        record: Record,
    ) -> Turn:
        """The turn that a generation at this position makes."""
        delta = (*self.tail, assistant)
        return Turn(
            seq=seq,
            parent=self.parent,
            delta=delta,
            message_count=self.tail_start + len(delta),
            tokens=tokens,
            completion_start=completion_start,
            finish_reason=finish_reason,
            response_id=response_id,
            record=record,
        )
