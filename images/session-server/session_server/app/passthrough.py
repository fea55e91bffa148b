"""The few engine paths that a session's URL also serves, forwarded as they are.

An allow-list: an engine has administrative routes (weights, caches, profiling) that no client of a session may reach.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from session_server.app.access import service_of
from session_server.app.bodies import read_body
from session_server.app.errors import error_response, wrong_method
from session_server.wire.headers import to_client, to_engine

router = APIRouter()

ALLOWED: dict[str, frozenset[str]] = {
    "v1/models": frozenset({"GET"}),
    "model_info": frozenset({"GET"}),
    "get_model_info": frozenset({"GET"}),
    "tokenize": frozenset({"POST"}),
    "v1/tokenize": frozenset({"POST"}),
    "detokenize": frozenset({"POST"}),
    "v1/detokenize": frozenset({"POST"}),
}


@router.api_route(
    "/sessions/{session_id}/{path:path}",
    methods=["GET", "POST", "PUT", "DELETE", "PATCH"],
    include_in_schema=False,
)
async def forward(request: Request, session_id: str, path: str) -> Response:
    """Forward an allowed path of a live session; 404 for any other, 405 for a method that a path does not have."""
    service = service_of(request)
    session = service.store.get(session_id)
    documented = wrong_method(request.app, request.url.path)
    if documented is not None:
        raise documented
    methods = ALLOWED.get(path)
    if methods is None:
        return error_response(404, f"/{path} is not served; forwarded to the engine are {', '.join(sorted(ALLOWED))}")
    if request.method not in methods:
        response = error_response(405, f"/{path} takes {', '.join(sorted(methods))}")
        response.headers["allow"] = ", ".join(sorted(methods))
        return response
    reply = await service.engine.request(
        request.method,
        f"/{path}",
        headers=to_engine(
            request.headers.items(), session.id, forward_credentials=service.settings.forward_credentials
        ),
        content=(await read_body(request, service.settings.max_body_bytes),),
        query=request.url.query,
    )
    return Response(reply.body, reply.status, to_client(reply.headers))
