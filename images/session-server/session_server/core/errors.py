"""Why a request is refused. Each error carries the HTTP status it becomes and a message that is safe for the client.

SessionError
├── NotFoundError (404)          no such session, or it was deleted while the turn was generated
├── InvalidError (400)           the request cannot be served as it stands
├── ConflictError (409)          the session's state forbids it now: busy, truncated parent, full
├── LimitError (429)           the server holds as many sessions as it may
├── TokenizationError (500) the stored tokens and the new prompt disagree: a fault of this server
└── EngineError (502)    the engine answered 200 with something that cannot be recorded, or did not answer
    └── AbortedError (503)   the engine gave up a generation that it may well finish when asked again
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class SessionError(Exception):
    """A refusal: nothing was changed, and `str(error)` says why."""

    status: ClassVar[int] = 500


class NotFoundError(SessionError):
    """No session of that id is alive."""

    status = 404


class InvalidError(SessionError):
    """The request itself is at fault."""

    status = 400


class ConflictError(SessionError):
    """The request is well-formed, but the state of the session forbids it."""

    status = 409


class LimitError(SessionError):
    """A limit of the whole server is reached."""

    status = 429


class TokenizationError(SessionError):
    """Stored tokens are not a prefix of the new ones; nothing is recorded."""

    status = 500


class EngineError(SessionError):
    """The engine's answer cannot be trusted or recorded."""

    status = 502


class AbortedError(EngineError):
    """The engine aborted the generation; a retry makes sense."""

    status = 503


@contextmanager
def refuse_depth() -> Iterator[None]:
    """What recurses over a request within the block may find it nested too deeply.

    Raises:
        InvalidError: it did.
    """
    try:
        yield
    except RecursionError as error:
        raise InvalidError("the request is nested too deeply") from error
