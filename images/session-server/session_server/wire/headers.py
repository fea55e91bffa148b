"""Which headers cross the server, in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ROUTING_KEY = "x-smg-routing-key"
"""Carries the session id, so that a router keeps a session on one engine."""

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"}
)
_REQUEST_DROPPED = _HOP_BY_HOP | {"content-length", "host", "accept-encoding", "expect", "content-encoding"}
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "x-api-key", "cookie"})
_REPLY_DROPPED = _HOP_BY_HOP | {"content-length", "content-encoding", "server", "date", "x-request-id"}


def to_engine(headers: Iterable[tuple[str, str]], session_id: str, *, forward_credentials: bool) -> dict[str, str]:
    """The client's headers for the engine, with the routing key. Names are lower-case, each once."""
    dropped = _REQUEST_DROPPED if forward_credentials else _REQUEST_DROPPED | _CREDENTIALS
    kept = {name: value for name, value in headers if name not in dropped}
    kept[ROUTING_KEY] = session_id
    return kept


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """The engine's headers for the client; what this server's own HTTP layer writes is left to it."""
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _REPLY_DROPPED}
