"""GET /metrics, in Prometheus' text format."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from session_server.app.access import service_of

router = APIRouter()


@router.get("/metrics", summary="Metrics of this process")
async def metrics(request: Request) -> Response:
    """Turns, tokens, latencies, sessions."""
    content, media_type = service_of(request).metrics.text()
    return Response(content, media_type=media_type)
