"""All sessions of this process: creation, look-up, deletion, expiry. In memory only; a restart forgets them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from session_server.core.errors import LimitError, NotFoundError
from session_server.core.session import Session, State


class Store:
    """The sessions alive. `clock` gives seconds that never go backwards."""

    def __init__(
        self,
        make_state: Callable[[], State],
        *,
        exclusive: bool,
        max_sessions: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_state = make_state
        self._exclusive = exclusive
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self) -> Session:
        """A fresh session with an id of 32 hexadecimal digits.

        Raises:
            LimitError: the limit is reached even after expired sessions were removed.
        """
        if len(self._sessions) >= self._max_sessions:
            self.expire()
        if len(self._sessions) >= self._max_sessions:
            raise LimitError(f"session limit reached: {self._max_sessions} sessions are alive; delete some or wait")
        session = Session(uuid.uuid4().hex, self._make_state(), exclusive=self._exclusive, now=self._clock())
        self._sessions[session.id] = session
        return session

    def get(self, session_id: str) -> Session:
        """The session of that id, marked as used now.

        Raises:
            NotFoundError: there is none, or it has expired.
        """
        session = self._sessions.get(session_id)
        if session is None or self._expired(session):
            raise NotFoundError(f"session not found: {session_id}")
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """Mark `session` as used now."""
        session.last_used = self._clock()

    def delete(self, session_id: str) -> None:
        """Remove a session and withdraw its turns in flight, without waiting for them.

        Raises:
            NotFoundError: there is none.
        """
        session = self.get(session_id)
        del self._sessions[session.id]
        session.close()

    def expire(self) -> int:
        """Remove the sessions that were idle for too long; returns how many."""
        expired = [session for session in self._sessions.values() if self._expired(session)]
        for session in expired:
            del self._sessions[session.id]
            session.close()
        return len(expired)

    def _expired(self, session: Session) -> bool:
        return session.in_flight == 0 and self._clock() - session.last_used > self._idle_seconds
