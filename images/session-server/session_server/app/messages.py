"""The Anthropic route, and the token count that goes with it."""

from __future__ import annotations

import json
from typing import Any

import structlog
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from session_server.app.access import service_of
from session_server.app.bodies import read_body, receive_body
from session_server.app.errors import json_response
from session_server.app.presence import while_connected
from session_server.app.service import Refused, Service
from session_server.core import matchers
from session_server.core.errors import SessionError
from session_server.core.matchers import Matcher, MatcherError
from session_server.engine.reply import Generation
from session_server.observe.logs import logger
from session_server.wire.anthropic import errors, events
from session_server.wire.anthropic.reply import to_message
from session_server.wire.anthropic.request import CountBody, MessagesBody
from session_server.wire.headers import to_engine
from session_server.wire.replay import Body

router = APIRouter()

_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def _body(model: type[MessagesBody]) -> dict[str, Any]:
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/sessions/{session_id}/v1/messages",
    summary="Generate and record one turn, in the Anthropic dialect",
    openapi_extra=_body(MessagesBody),
)
async def create_message(request: Request, session_id: str) -> Response:
    """As chat completions, for Anthropic clients; errors come in the Anthropic envelope."""
    try:
        return await _create(request, session_id)
    except (SessionError, MatcherError, HTTPException) as error:
        return _refusal(error)


@router.post(
    "/sessions/{session_id}/v1/messages/count_tokens",
    summary="Length of the prompt that a message request would make",
    openapi_extra=_body(CountBody),
)
async def count_tokens(request: Request, session_id: str) -> Response:
    """The exact number of ids that would be sent for this session; nothing is generated or changed."""
    try:
        service = service_of(request)
        session = service.store.get(session_id)
        chat = service.anthropic.parse_count(await read_body(request, service.settings.max_body_bytes))
        return json_response({"input_tokens": service.prompt_length(session, chat, _matcher(service))})
    except (SessionError, MatcherError, HTTPException) as error:
        return _refusal(error)


async def _create(request: Request, session_id: str) -> Response:
    service = service_of(request)
    session = service.store.get(session_id)
    body = Body()
    await receive_body(request, service.settings.max_body_bytes, body.feed)
    chat = service.message_replays.parse(session, body)
    headers = to_engine(request.headers.items(), session.id, forward_credentials=service.settings.forward_credentials)

    def present(generation: Generation) -> bytes:
        message = to_message(generation, stop_sequences=chat.fields.get("stop", ()))
        if not chat.stream:
            return events.dump(message)
        return events.stream(message, model=chat.fields["model"], arguments=_arguments(generation))

    async with while_connected(request):
        outcome = await service.run_turn(session, chat, headers, present, matcher=_matcher(service))
    if isinstance(outcome, Refused):
        reply = outcome.reply
        if reply.status >= 500:
            # its words may be those of the conversation
            logger().warning("engine refused", status=reply.status)
            logger().debug("engine refused", status=reply.status, body=reply.body[:300].decode("utf-8", "replace"))
        document = errors.from_engine(reply.status, reply.body, request_id=_request_id())
        return json_response(document, reply.status, errors.kept_headers(reply.headers))
    service.message_replays.learn(session, body, chat, outcome.request, outcome.parent)
    if chat.stream:
        return Response(outcome.presented, headers=dict(_STREAM_HEADERS), media_type="text/event-stream")
    return Response(outcome.presented, media_type="application/json")


def _matcher(service: Service) -> Matcher:
    """On this wire arguments come back parsed, so their spelling cannot be compared."""
    return matchers.as_parsed if service.matcher in (matchers.strict, matchers.loose_tool_call) else service.matcher


def _arguments(generation: Generation) -> list[str]:
    """The argument strings of the calls, as sampled."""
    written = [call["function"].get("arguments") for call in generation.message.get("tool_calls") or ()]
    return [json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else each or "" for each in written]


def _request_id() -> str | None:
    value = structlog.contextvars.get_contextvars().get("request_id")
    return value if isinstance(value, str) else None


def _refusal(error: SessionError | MatcherError | HTTPException) -> Response:
    status = error.status if isinstance(error, SessionError) else 500
    message = str(error)
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    if status >= 500:
        logger().warning("turn failed", status=status, reason=message)
    return json_response(errors.envelope(status, message, request_id=_request_id()), status, headers)
