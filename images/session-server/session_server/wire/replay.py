"""What a client says again is not read again.

A chat client repeats its whole history in every request, nearly always as the same bytes: the body of a turn begins
with the body of the turn before, up to the end of its last message. Then only what stands behind is kept, parsed,
checked and written for the engine; the messages in front are those of the turn before, which were all that.

This is exact, not a guess. A body is cut at the end of its last message only after both sides of the cut were parsed:
the front ends inside the array of messages, the rest begins behind one of its elements and does not name `messages`
again. Any front and any rest of which that is true make a valid body when they are put together, with or without more
elements between them. Whatever does not fit, or does not pass a check, is read whole, so errors are always the same.

Both dialects name the list `messages`. What an element becomes is theirs to say; it must not depend on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

import orjson

from session_server.core.errors import InvalidError
from session_server.core.session import Session
from session_server.core.turn import EngineRequest, Message, Turn
from session_server.wire.openai import ChatRequest, Cut, as_text
from session_server.wire.scan import find_list, list_end

_SPACE = b" \t\n\r"

_MARK = uuid4().hex
"""Stands for what is left out of a text while it is parsed; no client knows it."""

_CONVERSATIONS = 8
"""Bodies of a session that are remembered."""

_GIVE_UP = 2 * _CONVERSATIONS
"""Requests of a session that may begin anew, one after the other, before cuts are no longer looked for."""


class Dialect(Protocol):
    """How bodies of one route become chat requests."""

    history_fields: Sequence[str]
    """Fields beside `messages` of which the history is made, too."""

    def parse(self, raw: bytes) -> ChatRequest:
        """Check a whole body; raises InvalidError."""
        ...

    def check(self, fields: dict[str, Any]) -> ChatRequest:
        """Check the fields of a body that was parsed already; raises InvalidError."""
        ...

    def appended(self, elements: list[Any]) -> list[Message]:
        """Check further elements of `messages`, and what they are in a chat; raises InvalidError."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """A body that was answered, what it was parsed to, and how its messages were written for the engine."""

    cut: Cut
    chat: ChatRequest
    written: tuple[bytes, ...]
    parent: Turn | None


class Body:
    """A body in the chunks in which it came."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.continues: _Known | None = None
        """The known body whose front it was found to repeat."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._chunks.append(chunk)

    def behind(self, front: Sequence[bytes]) -> bytes | None:
        """What stands behind `front`, given in pieces; None when the body does not begin with it."""
        number, at = 0, 0
        for piece in front:
            within = 0
            while within < len(piece):
                if number == len(self._chunks):
                    return None
                chunk = self._chunks[number]
                left, here = len(piece) - within, len(chunk) - at
                if left <= here:
                    same = chunk.startswith(memoryview(piece)[within:], at)
                else:
                    same = piece.startswith(memoryview(chunk)[at:], within)
                if not same:
                    return None
                within, at = within + min(left, here), at + min(left, here)
                if at == len(chunk):
                    number, at = number + 1, 0
        rest = self._chunks[number:]
        if at:
            rest[0] = rest[0][at:]
        return rest[0] if len(rest) == 1 else b"".join(rest)

    def whole(self) -> bytes:
        """All of it."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)


class Replays:
    """The last answered body of every conversation of the sessions alive, in one dialect.

    A session may hold several conversations: agents that take turns, each of which repeats its own.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._known: WeakKeyDictionary[Session, tuple[_Known, ...]] = WeakKeyDictionary()
        self._missed: WeakKeyDictionary[Session, int] = WeakKeyDictionary()

    def parse(self, session: Session, body: Body) -> ChatRequest:
        """Check a body, as the dialect's `parse` does.

        Raises:
            InvalidError: as the dialect's `parse`.
        """
        for known in self._known.get(session, ()):
            behind = body.behind(known.cut.front)
            chat = None if behind is None else _continue(self._dialect, known, behind)
            if chat is not None:
                body.continues = known
                return chat
        return self._dialect.parse(body.whole())

    def learn(
        self, session: Session, body: Body, chat: ChatRequest, request: EngineRequest, parent: Turn | None
    ) -> None:
        """Remember a body that was answered: what it was parsed to, how it was written, and where it attached."""
        cut = chat.cut
        if cut is not None:
            self._missed.pop(session, None)
        else:
            missed = self._missed.get(session, 0)
            if missed >= _GIVE_UP:
                self._known.pop(session, None)
                return
            self._missed[session] = missed + 1
            cut = find_cut(body.whole())
            if cut is None:
                return
        others = [known for known in self._known.get(session, ()) if known is not body.continues]
        self._known[session] = (_Known(cut, chat, request.messages, parent), *others[: _CONVERSATIONS - 1])


def _continue(dialect: Dialect, known: _Known, behind: bytes) -> ChatRequest | None:
    """A body that has `behind` behind the known front; None when anything about it is wrong."""
    rest = known.cut.rest
    chat: ChatRequest | None = known.chat
    try:
        if behind.endswith(rest):
            stop = len(behind) - len(rest)
            elements = _elements(behind[:stop])
        else:
            stop, fields, elements = _next_end(behind)
            chat = None if elements is None else _with_fields(dialect, known.cut, fields)
        if elements is None or chat is None:
            return None
        appended = dialect.appended(elements)
    except InvalidError:
        return None
    front = _lengthened(known.cut.front, behind[:stop]) if stop else known.cut.front
    return replace(
        chat,
        messages=(*known.chat.messages, *map(as_text, appended)),
        unwritten=appended,
        written=known.written,
        repeated=known.parent,
        cut=Cut(front, behind[stop:], known.cut.before),
    )


def _with_fields(dialect: Dialect, cut: Cut, behind: Mapping[str, Any]) -> ChatRequest | None:
    """A request that has other fields behind its messages than last time; None when they change the history, too."""
    fields = {**cut.before, **behind}
    if dialect.history_fields:
        last = {**cut.before, **(fields_behind(cut.rest) or {})}
        if any(last.get(name) != fields.get(name) for name in dialect.history_fields):
            return None
    return dialect.check(fields)


def _lengthened(front: tuple[bytes, ...], text: bytes) -> tuple[bytes, ...]:
    """`front` and `text`, in few pieces: each is more than twice as long as the next, so a byte is seldom copied."""
    kept, size = len(front), len(text)
    while kept and len(front[kept - 1]) <= 2 * size:
        kept -= 1
        size += len(front[kept])
    return (*front[:kept], b"".join((*front[kept:], text)))


def _next_end(behind: bytes) -> tuple[int, Mapping[str, Any], list[Any] | None]:
    """Where the last message ends in `behind`, the fields behind it, the elements up to it (None: it is not found)."""
    if not _ends_a_list(behind):
        return 0, {}, None
    end = list_end(behind)
    fields = None if end is None else fields_behind(behind[end:])
    if fields is None:
        return 0, {}, None
    between = behind[:end].rstrip(_SPACE)
    return len(between), fields, _elements(between)


def _ends_a_list(text: bytes) -> bool:
    """Whether `text` goes on in a list of an object and ends both, so that it can be searched."""
    try:
        orjson.loads(b'{"":[0%b' % text)
    except orjson.JSONDecodeError:
        return False
    return True


def _elements(text: bytes) -> list[Any] | None:
    """The elements that `text`, a comma and some values, adds to a list; [] for nothing, None when it is not that."""
    if not text:
        return []
    if not text.startswith(b","):
        return None
    try:
        # in two brackets: a text that closes the list and opens another would give two of them
        lists = orjson.loads(b"[[%b]]" % text[1:])
    except orjson.JSONDecodeError:
        return None
    if len(lists) != 1 or not lists[0]:
        return None
    elements: list[Any] = lists[0]
    return elements


def fields_behind(rest: bytes) -> dict[str, Any] | None:
    """Fields of the object that `rest` ends, a text from the end of one of its lists on.

    None when it is no such text, or names `messages` itself.
    """
    try:
        fields = orjson.loads(b'{"%b":[0%b' % (_MARK.encode(), rest))
    except orjson.JSONDecodeError:
        return None
    if fields.pop(_MARK, None) != [0] or "messages" in fields:
        return None
    return dict(fields)


def find_cut(raw: bytes) -> Cut | None:
    """Where the messages of a whole, valid body end; None where that is not found."""
    found = find_list(raw, "messages")
    if found is None:
        return None
    front = raw[: found.end].rstrip(_SPACE)
    if len(front) == found.start + 1:
        return None
    before = orjson.loads(raw[: found.key].rstrip(_SPACE).removesuffix(b",") + b"}")
    before.pop("messages", None)
    return Cut((front,), raw[len(front) :], before)
