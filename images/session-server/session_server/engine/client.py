"""HTTP towards SGLang: one connection pool, bytes in, bytes out.

Knows addresses, time-outs and headers; does not know what a turn is. A failure to get any answer becomes
`EngineError`; an answer with an error status is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

import httpx

from session_server.core.errors import EngineError

CHAT_PATH = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class EngineReply:
    """An answer. `headers` are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class EngineClient:
    """A pool of connections to one engine or router. Time-outs are in seconds."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_seconds: float,
        connect_timeout_seconds: float,
        max_connections: int,
        api_key: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._authorization = None if api_key is None else f"Bearer {api_key}"
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_seconds, connect=connect_timeout_seconds),
            limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> EngineClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        query: str = "",
        timeout_seconds: float | None = None,
    ) -> EngineReply:
        """Send one request and read the whole answer.

        Raises:
            EngineError: no answer came: refused, reset, timed out.
        """
        merged = dict(headers or {})
        if self._authorization is not None:
            merged["authorization"] = self._authorization
        url = self._base_url + path + (f"?{query}" if query else "")
        try:
            response = await self._client.request(
                method,
                url,
                headers=merged,
                content=content,
                timeout=httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else timeout_seconds,
            )
        except httpx.HTTPError as error:
            raise EngineError(f"backend transport error: {type(error).__name__}: {error}") from error
        return EngineReply(response.status_code, response.headers, response.content)

    async def chat(self, content: bytes, headers: Mapping[str, str]) -> EngineReply:
        """Send a chat completion whose body is `content`.

        Raises:
            EngineError: no answer came.
        """
        return await self.request(
            "POST", CHAT_PATH, headers={**headers, "content-type": "application/json"}, content=content
        )
