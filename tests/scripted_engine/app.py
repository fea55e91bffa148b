"""The HTTP side: SGLang's routes that a session server and a verifier use, and a control route for faults."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .engine import BadRequestError, ScriptedEngine
from .faults import Fault, Kind, read_faults, shown

VERSION = "0.0.0+scripted"
ROUTING_KEY = "x-smg-routing-key"


def build(engine: ScriptedEngine) -> Starlette:
    """The application over one engine."""

    async def healthy(request: Request) -> Response:
        return PlainTextResponse("")

    async def model_info(request: Request) -> Response:
        return JSONResponse(
            {
                "model_path": str(engine.directory),
                "tokenizer_path": str(engine.directory),
                "is_generation": True,
                "weight_version": "default",
                "model_type": "scripted",
            }
        )

    async def server_info(request: Request) -> Response:
        return JSONResponse(
            {
                "version": VERSION,
                "scripted": True,
                "model_path": str(engine.directory),
                "reasoning_parser": engine.dialect.reasoning_parser,
                "tool_call_parser": engine.dialect.tool_call_parser,
            }
        )

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": str(engine.directory), "object": "model"}]})

    async def chat(request: Request) -> Response:
        body = await _body(request)
        session, faults = engine.arrive(request.headers.get(ROUTING_KEY, ""), body)
        kinds = {fault.kind: fault for fault in faults}
        early = await _before(kinds)
        if early is not None:
            return early
        reply = engine.complete(body, session, faults)
        if Kind.BROKEN_JSON in kinds:
            text = json.dumps(reply)
            return Response(text[: len(text) // 2], media_type="application/json")
        return JSONResponse(reply)

    async def generate(request: Request) -> Response:
        body = await _body(request)
        text = body.get("text")
        ids = engine.checked_ids(
            engine.tokenizer.encode(text, add_special_tokens=False).ids
            if isinstance(text, str)
            else body.get("input_ids")
        )
        refused = next((fault for fault in engine.faults if fault.kind is Kind.NO_SCORING), None)
        wanted = int((body.get("sampling_params") or {}).get("max_new_tokens", 1))
        if refused is not None and not wanted:
            refused.fired += 1
            raise BadRequestError("max_new_tokens must be at least 1")
        made = [ids[-1]] * wanted
        meta: dict[str, Any] = {
            "id": "scripted",
            "finish_reason": {"type": "length", "length": wanted},
            "prompt_tokens": len(ids),
            "completion_tokens": wanted,
            "cached_tokens": 0,
            "weight_version": "default",
        }
        if body.get("return_logprob"):
            start = int(body.get("logprob_start_len", -1))
            meta["input_token_logprobs"] = engine.score(ids, len(ids) if start < 0 else start)
            meta["output_token_logprobs"] = engine.score([*ids[-1:], *made], 0)[1:]
        return JSONResponse({"text": engine.tokenizer.decode(made), "output_ids": made, "meta_info": meta})

    async def faults(request: Request) -> Response:
        if request.method == "POST":
            engine.faults[:] = read_faults((await request.body()).decode())
        elif request.method == "DELETE":
            engine.faults.clear()
        return JSONResponse(shown(engine.faults))

    async def requests(request: Request) -> Response:
        return JSONResponse(engine.requests)

    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {"object": "error", "message": str(error), "type": "BadRequestError", "param": None, "code": 400}, 400
        )

    routes = [Route(path, healthy) for path in ("/health", "/health_generate", "/ready")]
    routes += [Route(path, model_info) for path in ("/model_info", "/get_model_info")]
    routes += [Route(path, server_info) for path in ("/server_info", "/get_server_info")]
    routes += [
        Route("/v1/models", models),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/generate", generate, methods=["POST"]),
        Route("/control/faults", faults, methods=["GET", "POST", "DELETE"]),
        Route("/control/requests", requests),
    ]
    return Starlette(routes=routes, exception_handlers={BadRequestError: refuse, ValueError: refuse})


async def _body(request: Request) -> dict[str, Any]:
    value = json.loads(await request.body())
    if not isinstance(value, dict):
        raise BadRequestError("the body is not a JSON object")
    return value


async def _before(kinds: dict[Kind, Fault]) -> Response | None:
    """Faults that come before any token."""
    if Kind.HOARD in kinds:
        value = kinds[Kind.HOARD].value
        _hoard = bytearray(b"\1") * (1024 if value is None else int(value)) * 2**20
        os._exit(1)
    if Kind.DIE in kinds:
        os._exit(1)
    if Kind.HANG in kinds:
        await asyncio.Event().wait()
    if Kind.DELAY in kinds:
        value = kinds[Kind.DELAY].value
        await asyncio.sleep(1.0 if value is None else value)
    if Kind.STATUS in kinds:
        value = kinds[Kind.STATUS].value
        status = 500 if value is None else int(value)
        return JSONResponse({"object": "error", "message": "scripted fault", "type": "InternalServerError"}, status)
    return None
