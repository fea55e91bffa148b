"""One session: its state machine and the turns that are being generated for it.

A v1 session takes one turn at a time: a second is refused before it reaches the engine, since only one of two
continuations could be kept. A v2 session takes any number. Closing never waits: it withdraws the turns in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from session_server.core.errors import ConflictError, NotFoundError
from session_server.core.matchers import Matcher
from session_server.core.turn import Message, Position, Turn


class State(Protocol):
    """What a state machine offers. `position` is pure; `commit` is the only change."""

    @property
    def tip(self) -> Turn | None:
        """Last turn of the active path."""
        ...

    @property
    def turns(self) -> list[Turn]:
        """The active path, oldest first."""
        ...

    @property
    def next_seq(self) -> int:
        """Number that the next committed turn gets."""
        ...

    def position(self, messages: Sequence[Message], matcher: Matcher, *, repeated: Turn | None = None) -> Position:
        """Where a request attaches; its leading messages are known to match the whole path of `repeated`."""
        ...

    def commit(self, turn: Turn) -> None:
        """Record a generation."""
        ...


class Session:
    """A session and what is in flight for it. `last_used` is in seconds of the store's clock."""

    def __init__(self, session_id: str, state: State, *, exclusive: bool, now: float) -> None:
        self.id = session_id
        self.state = state
        self.last_used = now
        self._exclusive = exclusive
        self._closed = False
        self._withdraw: dict[int, Callable[[], object]] = {}

    @property
    def closed(self) -> bool:
        """Whether the session was deleted."""
        return self._closed

    @property
    def in_flight(self) -> int:
        """Number of turns being generated."""
        return len(self._withdraw)

    @contextmanager
    def turn(self, withdraw: Callable[[], object]) -> Iterator[None]:
        """Hold a place for one turn; `withdraw` is called when the session is deleted meanwhile.

        Raises:
            NotFoundError: the session was deleted.
            ConflictError: the session takes one turn at a time and one is in flight.
        """
        if self._closed:
            raise NotFoundError(f"session not found: {self.id}")
        if self._exclusive and self._withdraw:
            raise ConflictError(
                "session busy: another turn of this session is being generated; send one turn at a time"
            )
        key = id(withdraw)
        self._withdraw[key] = withdraw
        try:
            yield
        finally:
            del self._withdraw[key]

    def close(self) -> None:
        """Mark the session deleted and withdraw its turns; returns at once."""
        self._closed = True
        for withdraw in list(self._withdraw.values()):
            withdraw()
