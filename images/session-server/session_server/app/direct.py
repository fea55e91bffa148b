"""A short way to the two routes that generate: what a framework does around a route costs a tenth of a turn.

The routes themselves are FastAPI's (they are in the OpenAPI document, and whatever is not plainly one of theirs reaches
them that way); a request that is goes to the same function, and its refusals become the same answers.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from session_server.app.errors import refusal
from session_server.core.errors import SessionError
from session_server.core.matchers import MatcherError

Endpoint = Callable[[Request, str], Awaitable[Response]]

_PATH = re.compile(r"/sessions/([0-9a-f]{32})/(v1/chat/completions|v1/messages)\Z")


class Direct:
    """ASGI middleware: POST to one of `endpoints`, by path behind the session, is answered by it."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            found = _PATH.match(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            response = await self._endpoints[found[2]](request, found[1])
        except (SessionError, MatcherError, HTTPException) as error:
            response = refusal(scope["path"], error)
        await response(scope, receive, send)
