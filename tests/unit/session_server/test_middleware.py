"""Around every request: what is answered where nothing else was, in the words of the route's dialect."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import orjson
import pytest
import uvicorn.server
from session_server.app.middleware import _OF_SHUTDOWN, RequestContext
from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio

PATHS = ["/sessions/0/v1/chat/completions", "/sessions/0/v1/messages", "/sessions/0/v1/messages/count_tokens"]


async def answer_of(app: Any, path: str, *, cancel: str = "") -> tuple[int, dict[str, Any]]:
    """Status and document of the answer; with `cancel` the request is cancelled in these words."""
    sent: list[Message] = []
    scope = {"type": "http", "method": "POST", "path": path, "headers": []}

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise RuntimeError("nothing is read")

    request = asyncio.create_task(RequestContext(app)(scope, receive, send))
    if cancel:
        await asyncio.sleep(0)
        request.cancel(cancel)
    try:
        await request
    except asyncio.CancelledError:
        # who cancelled it learns that it worked
        assert cancel == "for another reason"
    else:
        assert cancel != "for another reason"
    return sent[0]["status"], orjson.loads(sent[1]["body"])


def test_the_words_of_a_shutdown_are_uvicorns() -> None:
    assert _OF_SHUTDOWN in inspect.getsource(uvicorn.server)


@pytest.mark.parametrize("words", [f"Task cancelled, timeout {_OF_SHUTDOWN}", "for another reason"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_request_that_outlives_the_shutdown_is_told_so(path: str, words: str) -> None:
    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    status, document = await answer_of(waits, path, cancel=words)
    assert status == 503
    if "messages" in path:
        assert document["error"] == {"type": "overloaded_error", "message": "Internal server error"}
    else:
        assert document == {"error": "shutting down; nothing was recorded"}


@pytest.mark.parametrize("path", PATHS)
async def test_what_was_not_foreseen_is_told_without_detail(path: str) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError("secret detail")

    status, document = await answer_of(fails, path)
    assert status == 500
    assert b"secret" not in orjson.dumps(document)
    assert (document.get("type") == "error") == ("messages" in path)
