"""HTTP towards SGLang: bytes in, bytes out.

Knows paths, time-outs and credentials; does not know what a turn is. A failure to get any answer becomes `EngineError`;
an answer with an error status is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from session_server.core.errors import EngineError
from session_server.engine.pool import Answer, TransportError

CHAT_PATH = "/v1/chat/completions"


class Transport(Protocol):
    """What carries an exchange: the pool, or a stand-in."""

    async def send(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        content: Sequence[bytes],
        *,
        timeout_seconds: float,
    ) -> Answer:
        """One exchange, the body sent piece by piece; raises TransportError."""
        ...

    async def aclose(self) -> None:
        """Give connections back."""
        ...


@dataclass(frozen=True, slots=True)
class EngineReply:
    """An answer. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class EngineClient:
    """One engine or router. Time-outs are in seconds."""

    def __init__(self, transport: Transport, *, timeout_seconds: float, api_key: str | None = None) -> None:
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._authorization = None if api_key is None else f"Bearer {api_key}"

    async def aclose(self) -> None:
        """Close idle connections."""
        await self._transport.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: Sequence[bytes] = (),
        query: str = "",
        timeout_seconds: float | None = None,
    ) -> EngineReply:
        """Send one request, its body in pieces, and read the whole answer.

        Raises:
            EngineError: no answer came: refused, reset, timed out.
        """
        merged = dict(headers or {})
        if self._authorization is not None:
            merged["authorization"] = self._authorization
        try:
            answer = await self._transport.send(
                method,
                path + (f"?{query}" if query else ""),
                merged.items(),
                content,
                timeout_seconds=timeout_seconds or self._timeout_seconds,
            )
        except TransportError as error:
            raise EngineError(f"backend transport error: {type(error).__name__}: {error}") from error
        return EngineReply(answer.status, answer.headers, answer.body)

    async def chat(self, content: Sequence[bytes], headers: Mapping[str, str]) -> EngineReply:
        """Send a chat completion whose body is `content`, in pieces.

        Raises:
            EngineError: no answer came.
        """
        return await self.request(
            "POST", CHAT_PATH, headers={**headers, "content-type": "application/json"}, content=content
        )
