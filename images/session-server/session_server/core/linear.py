"""v1: one line of turns with a rollback of at most one generation.

`position` is pure: it computes where a request would attach and changes nothing, so a refused or failed request leaves
no trace. Only `commit` changes the line, in one assignment, and it is where a rollback takes effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from session_server.core.errors import ConflictError, InvalidError
from session_server.core.matchers import Matcher, matching_length
from session_server.core.policy import refuse_roles, refuse_truncated
from session_server.core.turn import Message, Position, Turn

MAX_ROLLBACK = 1
"""Generations that one request may discard."""


class Line:
    """The state of a v1 session."""

    def __init__(self, *, append_roles: frozenset[str], max_turns: int) -> None:
        self._append_roles = append_roles
        self._max_turns = max_turns
        self._tip: Turn | None = None
        self._committed = 0

    @property
    def tip(self) -> Turn | None:
        """The last committed turn; None when the session is fresh."""
        return self._tip

    @property
    def turns(self) -> list[Turn]:
        """The surviving turns, oldest first."""
        return [] if self._tip is None else self._tip.path()

    @property
    def next_seq(self) -> int:
        """Number that the next committed turn gets."""
        return self._committed

    def position(self, messages: Sequence[Message], matcher: Matcher, *, repeated: Turn | None = None) -> Position:
        """Where `messages` attaches; the leading ones are known to match the whole path of `repeated`.

        Raises:
            InvalidError: more than one generation would be discarded, or a role may not be appended.
            ConflictError: the generation to extend was truncated, or the session is full.
        """
        parent = self._attach(messages, matcher, repeated)
        start = 0 if parent is None else parent.message_count
        position = Position(parent=parent, tail=tuple(messages[start:]), tail_start=start)
        refuse_roles(position, self._append_roles)
        if parent is not None:
            refuse_truncated(parent)
            if len(parent.path()) >= self._max_turns:
                raise ConflictError(f"session is full: it holds {self._max_turns} turns; start a new session")
        return position

    def _attach(self, messages: Sequence[Message], matcher: Matcher, repeated: Turn | None) -> Turn | None:
        tip = self._tip
        if tip is None:
            return None
        behind = None if repeated is None else tip.messages_behind(repeated)
        if repeated is None or behind is None:
            same = matching_length(tip.messages(), messages, matcher)
        else:
            same = repeated.message_count + matching_length(behind, messages[repeated.message_count :], matcher)
        discarded = 0
        turn: Turn | None = tip
        while turn is not None and turn.message_count > same:
            discarded += 1
            turn = turn.parent
        if discarded > MAX_ROLLBACK:
            raise InvalidError(
                f"rollback failed: discard_count={discarded} exceeds max_assistant_rollback_steps={MAX_ROLLBACK} "
                f"(stored has {tip.message_count} messages, request has {len(messages)} messages)"
            )
        return turn

    def commit(self, turn: Turn) -> None:
        """Make `turn` the tip; what was past its parent is discarded."""
        self._tip = turn
        self._committed += 1
