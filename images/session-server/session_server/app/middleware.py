"""Around every request: an id, one log line, and an answer even where the code failed.

Plain ASGI. A failure is answered with the request's id and nothing else; what happened is in the log under that id.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from typing import Any

import orjson
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from session_server.observe.logs import logger
from session_server.wire.anthropic.errors import envelope

_OF_SHUTDOWN = "graceful shutdown exceeded"
"""Part of what uvicorn says when it cancels the requests that outlived its patience; it logs what they raise then."""

_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}\Z")
_MESSAGES_PATH = re.compile(r"/v1/messages(?:/count_tokens)?\Z")
_SESSION_PATH = re.compile(r"/sessions/([0-9a-f]{32})(?:/|\Z)")


class RequestContext:
    """ASGI middleware. The id is the client's `x-request-id` where that is a plain word, else a fresh one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = logger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        found = _SESSION_PATH.match(scope["path"])
        structlog.contextvars.bind_contextvars(
            request_id=request_id, **({"session_id": found[1]} if found is not None else {})
        )
        started = time.perf_counter()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(name, value) for name, value in message["headers"] if name != b"x-request-id"]
                message["headers"] = [*headers, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError as error:
            # the server shuts down and has waited as long as it may
            if not status:
                await _answer(send_with_id, scope["path"], 503, "shutting down; nothing was recorded", request_id)
            # who else cancels a request wants to know that it was
            if _OF_SHUTDOWN not in str(error):
                raise
        except Exception:
            self._log.exception("request failed", method=scope["method"], path=scope["path"])
            if status:
                raise
            message = f"internal error; see the server's log for request {request_id}"
            await _answer(send_with_id, scope["path"], 500, message, request_id)
        finally:
            self._log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 2),
            )
            structlog.contextvars.unbind_contextvars("request_id", "session_id")


async def _answer(send: Send, path: str, status: int, message: str, request_id: str) -> None:
    """An error in the words of the dialect that `path` speaks."""
    document: dict[str, Any] = {"error": message}
    if _MESSAGES_PATH.search(path):
        document = envelope(status, message, request_id=request_id)
    body = orjson.dumps(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTABLE.match(value):
            given: bytes = value
            return given.decode("ascii")
    return uuid.uuid4().hex
