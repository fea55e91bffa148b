"""Whether the client is still there.

A client that hung up will not see its answer, and usually sends the request again. So its turn is withdrawn: the engine
is let go, nothing is recorded, and the session is free for the next attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

CLIENT_CLOSED_REQUEST = 499
"""No standard status: nobody reads it but the log."""


@asynccontextmanager
async def while_connected(request: Request) -> AsyncIterator[None]:
    """Cancel the block when the client hangs up. The request's body must have been read.

    Raises:
        HTTPException: 499, in place of the cancellation.
    """
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request runs inside a task")
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise HTTPException(CLIENT_CLOSED_REQUEST, "the client hung up") from None
    finally:
        watcher.cancel()
