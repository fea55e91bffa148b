"""Creation, view and deletion of sessions."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from session_server.app.access import service_of
from session_server.app.errors import json_response
from session_server.wire.session import session_document

router = APIRouter()


@router.post("/sessions", summary="Create a session")
async def create(request: Request) -> Response:
    """A fresh session; any body is ignored."""
    return json_response({"session_id": service_of(request).store.create().id})


@router.get("/sessions/{session_id}", summary="Records and metadata of a session")
async def show(
    request: Request,
    session_id: str,
    view: Annotated[Literal["tree"] | None, Query(description="v2: `tree` gives every node's record.")] = None,
) -> Response:
    """The active path's records, its accumulated ids and the server's own comparison."""
    service = service_of(request)
    document = session_document(
        service.store.get(session_id),
        every_node=view == "tree",
        max_trim_tokens=service.codec.family.max_trim_tokens,
        verdicts=service.verdicts,
    )
    return Response(document, media_type="application/json")


@router.delete("/sessions/{session_id}", status_code=204, summary="Delete a session")
async def delete(request: Request, session_id: str) -> Response:
    """Remove the session at once; turns in flight are withdrawn from the engine and answered with 404."""
    service_of(request).store.delete(session_id)
    return Response(status_code=204)
