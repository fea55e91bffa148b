"""Errors as answers: one JSON shape for refusals, and a request id for what was not foreseen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from session_server.core.errors import SessionError
from session_server.core.matchers import MatcherError
from session_server.observe.logs import logger
from session_server.wire.problems import explain


def json_response(document: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`document` as compact UTF-8 JSON."""
    return Response(orjson.dumps(document), status, headers, media_type="application/json")


def error_response(status: int, message: str) -> Response:
    """`{"error": message}`."""
    return json_response({"error": message}, status)


def refusal(path: str, error: SessionError | MatcherError | HTTPException) -> Response:
    """What the client of `path` gets for `error`."""
    if isinstance(error, HTTPException):
        return json_response({"detail": error.detail}, error.status_code, dict(error.headers or {}))
    if isinstance(error, MatcherError):
        logger().error("matcher failed", path=path, reason=str(error))
        return error_response(500, str(error))
    if error.status >= 500:
        logger().warning("turn failed", path=path, status=error.status, reason=str(error))
    return error_response(error.status, str(error))


def wrong_method(app: FastAPI, path: str) -> HTTPException | None:
    """405 with the methods that `path` takes; None when no documented route has that path."""
    routes: Sequence[APIRoute] = app.state.documented
    methods = {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}
    return HTTPException(405, "Method Not Allowed", {"allow": ", ".join(sorted(methods))}) if methods else None


def install(app: FastAPI) -> None:
    """Turn this package's errors into answers."""

    @app.exception_handler(SessionError)
    async def refused(request: Request, error: SessionError) -> Response:
        return refusal(request.url.path, error)

    @app.exception_handler(MatcherError)
    async def matcher_failed(request: Request, error: MatcherError) -> Response:
        return refusal(request.url.path, error)

    @app.exception_handler(405)
    async def not_allowed(request: Request, error: HTTPException) -> Response:
        # the framework names the methods of the first route of that path only
        return refusal(request.url.path, wrong_method(app, request.url.path) or error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        return error_response(400, explain(error.errors()))
