"""The server's app with `GET /ready` beside it, and the stand-in for a service that this release cannot be."""

from __future__ import annotations

import httpx
from fastapi import FastAPI
from fastapi.responses import JSONResponse

READY_SECONDS = 30.0
"""For one token of the engine."""


def add_ready(app: FastAPI, engine_url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
    """Put `GET /ready` into `app`: 200 after the engine generated a token, else 503 with the reason."""

    @app.get("/ready")
    async def ready() -> JSONResponse:
        body = {"text": "Hello", "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        try:
            async with httpx.AsyncClient(timeout=READY_SECONDS, transport=transport) as http:
                reply = await http.post(f"{engine_url}/generate", json=body)
        except httpx.HTTPError as error:
            return JSONResponse({"status": "not ready", "error": f"{type(error).__name__}: {error}"}, 503)
        if reply.status_code != httpx.codes.OK:
            return JSONResponse({"status": "not ready", "error": f"{reply.status_code}: {reply.text[:300]}"}, 503)
        return JSONResponse({"status": "ready"})


def stand_in(instance_id: str, reason: str) -> FastAPI:
    """An app that is up, so that the lease of the other lanes is not held up, and refuses all work with `reason`."""
    app = FastAPI()

    @app.get("/health")
    async def health() -> JSONResponse:
        return JSONResponse({"status": "refusing", "reason": reason, "session_server_instance_id": instance_id})

    @app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    async def refuse(path: str) -> JSONResponse:
        return JSONResponse({"error": reason}, 501)

    return app
