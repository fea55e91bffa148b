"""The training samples of a session."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import PlainTextResponse, Response

from session_server.app.access import service_of
from session_server.app.bodies import read_body
from session_server.core.errors import InvalidError
from session_server.observe.logs import logger
from session_server.samples.errors import SampleError
from session_server.samples.payload import SAFETENSORS, as_json, as_safetensors
from session_server.wire.openai import parse_object
from session_server.wire.problems import explain

router = APIRouter()


class SamplesBody(BaseModel):
    """What a driver may ask for. Other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    max_seq_len: int | None = Field(default=None, ge=1, strict=True, description="Longest sample, in tokens.")
    metadata: dict[str, Any] | None = Field(default=None, description="v2: the agent's metadata, for every sample.")


_BODY: dict[str, Any] = {
    "requestBody": {"required": False, "content": {"application/json": {"schema": SamplesBody.model_json_schema()}}}
}


@router.post("/sessions/{session_id}/samples", summary="Training samples of a session", openapi_extra=_BODY)
async def samples(request: Request, session_id: str) -> Response:
    """Safetensors, or JSON where the client accepts only that; repeatable, changes nothing.

    422 with the reason as plain text when the records do not make samples.
    """
    service = service_of(request)
    session = service.store.get(session_id)
    raw = await read_body(request, service.settings.max_body_bytes)
    try:
        body = SamplesBody.model_validate(parse_object(raw) if raw.strip() else {})
    except ValidationError as error:
        raise InvalidError(explain(error.errors(include_url=False))) from error
    try:
        assembled = service.assembler.assemble(session, max_seq_len=body.max_seq_len, agent=body.metadata)
        if "application/json" in request.headers.get("accept", ""):
            return Response(as_json(assembled), media_type="application/json")
        return Response(as_safetensors(assembled), media_type=SAFETENSORS)
    except (SampleError, TypeError) as error:
        logger().warning("samples not assembled", reason=str(error))
        return PlainTextResponse(str(error), 422)
