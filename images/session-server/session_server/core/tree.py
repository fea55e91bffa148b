"""v2: a forest of turns that only grows.

A request attaches to the deepest turn whose whole path it repeats; where it repeats none it starts a new root. So a
request is never refused for its history: a retry becomes a sibling, a changed system prompt a root, and both stay
visible. `position` is pure; only `commit` changes the forest and moves the view.
"""

from __future__ import annotations

from collections.abc import Sequence

from session_server.core.errors import ConflictError
from session_server.core.matchers import Matcher, matching_length
from session_server.core.policy import refuse_roles, refuse_truncated
from session_server.core.turn import Message, Position, Turn


class Tree:
    """The state of a v2 session."""

    def __init__(self, *, append_roles: frozenset[str], max_nodes: int) -> None:
        self._append_roles = append_roles
        self._max_nodes = max_nodes
        self._nodes: list[Turn] = []
        self._children: dict[int | None, list[Turn]] = {None: []}
        self._branched = False

    @property
    def nodes(self) -> Sequence[Turn]:
        """Every turn in the order of commits; a turn's `seq` is its index."""
        return self._nodes

    @property
    def tip(self) -> Turn | None:
        """The last committed turn, which ends the active path."""
        return self._nodes[-1] if self._nodes else None

    @property
    def turns(self) -> list[Turn]:
        """The active path, oldest first."""
        return [] if self.tip is None else self.tip.path()

    @property
    def next_seq(self) -> int:
        """Number that the next committed turn gets."""
        return len(self._nodes)

    def children(self, parent: Turn | None) -> Sequence[Turn]:
        """The turns behind `parent` (None: the roots), oldest first."""
        return self._children[None if parent is None else parent.seq]

    def leaves(self) -> list[Turn]:
        """The turns that nothing follows, in the order of commits."""
        return [node for node in self._nodes if not self._children[node.seq]]

    def position(self, messages: Sequence[Message], matcher: Matcher, *, repeated: Turn | None = None) -> Position:
        """Where `messages` attaches; the leading ones are known to match the whole path of `repeated`.

        Raises:
            InvalidError: a role may not be appended.
            ConflictError: the generation to extend was truncated, or the session is full.
        """
        self._refuse_full()
        parent = self._attach(messages, matcher, repeated)
        start = 0 if parent is None else parent.message_count
        position = Position(parent=parent, tail=tuple(messages[start:]), tail_start=start)
        if parent is not None:
            refuse_truncated(parent)
        refuse_roles(position, self._append_roles)
        return position

    def _attach(self, messages: Sequence[Message], matcher: Matcher, repeated: Turn | None) -> Turn | None:
        best: Turn | None = None
        best_rank = (0, 0, -1)
        open_turns = [(root, 0, 1) for root in self._children[None]]
        if repeated is not None and not self._branched:
            # a line: every turn before is on the path of `repeated`, its number tells its depth
            best, best_rank = repeated, (repeated.message_count, repeated.seq + 1, repeated.seq)
            open_turns = [(child, repeated.message_count, repeated.seq + 2) for child in self._children[repeated.seq]]
        while open_turns:
            turn, start, depth = open_turns.pop()
            end = turn.message_count
            if end > len(messages) or matching_length(turn.delta, messages[start:end], matcher) < end - start:
                continue
            rank = (turn.message_count, depth, turn.seq)
            if rank > best_rank:
                best, best_rank = turn, rank
            open_turns += [(child, turn.message_count, depth + 1) for child in self._children[turn.seq]]
        return best

    def commit(self, turn: Turn) -> None:
        """Add `turn`, which becomes the end of the active path.

        Raises:
            ConflictError: turns that were generated at the same time filled the session.
        """
        self._refuse_full()
        siblings = self._children[None if turn.parent is None else turn.parent.seq]
        self._branched = self._branched or bool(siblings)
        self._nodes.append(turn)
        self._children[turn.seq] = []
        siblings.append(turn)

    def _refuse_full(self) -> None:
        if len(self._nodes) >= self._max_nodes:
            raise ConflictError(f"session is full: it holds {self._max_nodes} generations; start a new session")
