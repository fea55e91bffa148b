"""Errors in the Anthropic envelope.

A client's own fault keeps its words; a fault behind the server does not leave it: what happened is in the log under the
request id that the envelope carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "request_timeout_error",
    409: "invalid_request_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_LONGEST = 500
_KEPT = ("www-authenticate", "retry-after")
_KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")


def envelope(status: int, message: str, *, request_id: str | None, kind: str | None = None) -> dict[str, Any]:
    """The error document for `status`; `kind` replaces the type of a 4xx."""
    if status >= 500:
        kind, message = None, "Internal server error"
    document: dict[str, Any] = {
        "type": "error",
        "error": {"type": kind or _TYPES.get(status, "api_error"), "message": message[:_LONGEST]},
    }
    if request_id is not None:
        document["request_id"] = request_id
    return document


def from_engine(status: int, body: bytes, *, request_id: str | None) -> dict[str, Any]:
    """The engine's own error in the envelope: its type and words for a 4xx, nothing of it for a 5xx."""
    kind, message = _read(body)
    return envelope(status, message or "Request failed", request_id=request_id, kind=kind)


def _read(body: bytes) -> tuple[str | None, str]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None, body.decode("utf-8", "replace")
    if not isinstance(document, dict):
        return None, ""
    error = document.get("error")
    inner = error if isinstance(error, dict) else {}
    kind = inner.get("type") or document.get("type")
    message = inner.get("message") or document.get("message") or (error if isinstance(error, str) else "")
    return kind if isinstance(kind, str) and kind != "error" else None, message if isinstance(message, str) else ""


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The engine's headers that an error answer keeps."""
    return {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() in _KEPT or name.lower().startswith(_KEPT_PREFIXES)
    }
