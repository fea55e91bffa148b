"""/health is this process, /ready is the engine behind it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from session_server import __version__
from session_server.app.access import service_of
from session_server.app.errors import json_response
from session_server.core.errors import EngineError
from session_server.engine.probe import probe

router = APIRouter()


@router.get("/health", summary="This process is up")
async def health(request: Request) -> Response:
    """Who answers, what it serves and within which limits; says nothing about the engine."""
    service = service_of(request)
    settings = service.settings
    return json_response(
        {
            "status": "ok",
            "session_server_instance_id": settings.instance_id,
            "anthropic_intermediate_system_supported": service.codec.inline_system,
            "version": __version__,
            "core_version": settings.core_version.value,
            "tito_model": settings.tito_model,
            "matcher": settings.matcher,
            "sessions": len(service.store),
            "limits": {
                "engine_timeout_seconds": settings.engine_timeout_seconds,
                "max_body_bytes": settings.max_body_bytes,
                "max_sessions": settings.max_sessions,
                "max_nodes_per_session": settings.max_nodes_per_session,
                "session_idle_seconds": settings.session_idle_seconds,
            },
        }
    )


@router.get("/ready", summary="The engine answered a one-token generation")
async def ready(request: Request) -> Response:
    """200 with the engine's version and model after it generated a token; 503 with the reason otherwise."""
    service = service_of(request)
    try:
        found = await probe(
            service.engine,
            prompt=service.codec.vocabulary.encode("Hello"),
            timeout_seconds=service.settings.ready_timeout_seconds,
        )
    except EngineError as error:
        return json_response({"status": "not ready", "error": str(error)}, 503)
    return json_response(
        {"status": "ready", "engine": {"version": found.version, "model": found.model, "seconds": found.seconds}}
    )
