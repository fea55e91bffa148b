"""The OpenAI route: one generated turn per request."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from session_server.app.access import service_of
from session_server.app.bodies import receive_body
from session_server.app.presence import while_connected
from session_server.app.service import Refused
from session_server.engine.reply import Generation
from session_server.wire.headers import to_client, to_engine
from session_server.wire.openai import ChatBody
from session_server.wire.replay import Body
from session_server.wire.reply import client_body, stream_body

router = APIRouter()

_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ChatBody.model_json_schema()}}}
}
_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


@router.post("/sessions/{session_id}/v1/chat/completions", summary="Generate and record one turn", openapi_extra=_BODY)
async def chat_completions(request: Request, session_id: str) -> Response:
    """Position the request in the session, generate from its token ids, record, answer.

    With `stream` the answer is one chunk after the generation is recorded. An error of the engine itself is passed on
    as it came and records nothing.
    """
    service = service_of(request)
    session = service.store.get(session_id)
    body = Body()
    await receive_body(request, service.settings.max_body_bytes, body.feed)
    chat = service.chat_replays.parse(session, body)
    headers = to_engine(request.headers.items(), session.id, forward_credentials=service.settings.forward_credentials)

    def present(generation: Generation) -> bytes:
        return stream_body(generation.body) if chat.stream else client_body(generation.body, generation.raw)

    async with while_connected(request):
        outcome = await service.run_turn(session, chat, headers, present)
    if isinstance(outcome, Refused):
        return Response(outcome.reply.body, outcome.reply.status, to_client(outcome.reply.headers))
    service.chat_replays.learn(session, body, chat, outcome.request, outcome.parent)
    if chat.stream:
        return Response(outcome.presented, headers=dict(_STREAM_HEADERS), media_type="text/event-stream")
    return Response(outcome.presented, headers=to_client(outcome.headers))
