"""The server on real sockets, in this process: for real SDKs, broken connections and a slow engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from session_server.app.protocol import BoundedHead
from starlette.applications import Starlette


class _Announced(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def listening(app: FastAPI | Starlette) -> AsyncIterator[str]:
    """Serve `app` on a free port of this machine; gives the base URL."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        server = _Announced(
            uvicorn.Config(app, http=BoundedHead, log_config=None, access_log=False, server_header=False)
        )
        serving = asyncio.create_task(server._serve([place]))
        await server.listening.wait()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
