"""The HTTP client of one session server: open, ask, read, close. Typed, without retries of its own.

It decides who is to blame for a failed exchange. A connection that breaks, an engine that the session server cannot
reach and an overloaded server are infrastructure; any other answer that is not the promised one is a failed check.
Hidden retries are off on purpose: a request that is sent twice is a different conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, JsonValue

from runner.agents.messages import read_message
from runner.agents.records import Health, JsonObject, OutputToken, Reply, Usage, excerpt, read
from runner.agents.sse import Assembler
from runner.agents.stream import MessageAssembler
from runner.agents.transcript import Forest
from runner.base.errors import InfrastructureError, VerificationError

ENGINE = "engine"
CHAT_PATH = "v1/chat/completions"
"""Of an OpenAI turn, below the session; the other wire's is `v1/messages`."""
CONTROL_SECONDS = 30.0
"""Seconds for requests that no engine takes part in."""


class ServiceError(InfrastructureError):
    """Something under the verification broke; `service` is the Compose service that the evidence points at."""

    def __init__(self, service: str, message: str) -> None:
        self.service = service
        super().__init__(message, hint=f"see logs/{service}.log in the artifacts")


@dataclass(frozen=True)
class Refused:
    """A request that was not answered with 200; `text` is the body, for people at most its beginning."""

    status: int
    text: str


class Reader(Protocol):
    """Assembles a stream."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""

    def reply(self) -> Reply:
        """The assembled reply, once the body has ended."""


class _Created(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    session_id: str


class _ChatMeta(BaseModel):
    model_config = ConfigDict(extra="ignore")
    output_token_logprobs: list[list[JsonValue]] | None = None


class _ChatChoice(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    index: int
    message: JsonObject
    finish_reason: str
    meta_info: _ChatMeta | None = None


class _ChatReply(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    id: str
    choices: list[_ChatChoice]
    usage: Usage | None = None


class SessionClient:
    """Talks to the session server behind `http` (whose base_url it is). `service` names it in errors."""

    def __init__(self, http: httpx.AsyncClient, service: str) -> None:
        self._http = http
        self.service = service

    async def health(self) -> Health:
        """`GET /health`."""
        response = await self._exchange("GET", "/health")
        self._expect(response, 200, "health", "GET /health")
        return Health.model_validate(read(Health, response.content, "health", "GET /health"))

    async def ask(self, path: str) -> tuple[int, bytes]:
        """`GET` of any path: status and body as they come. Raises httpx.TransportError; has no bound of its own."""
        response = await self._http.get(path)
        return response.status_code, response.content

    async def create(self) -> str:
        """`POST /sessions`: the id of a new session."""
        response = await self._exchange("POST", "/sessions", {})
        self._expect(response, 200, "create", "POST /sessions")
        try:
            return _Created.model_validate_json(response.content).session_id
        except ValueError as error:
            raise VerificationError(
                "create", f"POST /sessions: no session_id in {excerpt(response.content)}"
            ) from error

    async def get(self, session_id: str) -> bytes:
        """`GET /sessions/{id}`: the raw snapshot, which is evidence and is saved as it came."""
        response = await self._exchange("GET", f"/sessions/{session_id}")
        self._expect(response, 200, "records", "GET /sessions/{id}")
        return response.content

    async def forest(self, session_id: str) -> Forest:
        """`GET /sessions/{id}?view=tree`: the records of all conversations, from a server that shows them."""
        response = await self._exchange("GET", f"/sessions/{session_id}?view=tree")
        if response.status_code != 200:
            return Forest(response.status_code)
        try:
            return Forest(200, orjson.loads(response.content))
        except orjson.JSONDecodeError as error:
            raise VerificationError(
                "records", f"GET /sessions/{{id}}?view=tree is not JSON ({error}): {excerpt(response.content)}"
            ) from error

    async def delete(self, session_id: str) -> None:
        """`DELETE /sessions/{id}`."""
        response = await self._exchange("DELETE", f"/sessions/{session_id}")
        self._expect(response, 204, "delete", "DELETE /sessions/{id}")

    async def complete(self, session_id: str, body: JsonObject, seconds: float) -> Reply:
        """One chat completion; `body["stream"]` selects the wire mode. `seconds` bound the whole exchange."""
        path = f"/sessions/{session_id}/v1/chat/completions"
        if body.get("stream") is True:
            return await self._streamed(path, body, seconds, Assembler())
        response = await self._exchange("POST", path, body, seconds)
        self._expect(response, 200, "turn", "POST chat/completions")
        return self._read_reply(response.content)

    async def message(self, session_id: str, body: JsonObject, seconds: float) -> Reply:
        """One turn of the Anthropic wire; `body["stream"]` selects the wire mode. `seconds` bound the exchange.

        This wire hides the reason of a 5xx from clients, so the server is asked whether its engine is still there.
        """
        path = f"/sessions/{session_id}/v1/messages"
        try:
            if body.get("stream") is True:
                return await self._streamed(path, body, seconds, MessageAssembler())
            response = await self._exchange("POST", path, body, seconds)
            self._expect(response, 200, "turn", "POST messages")
        except VerificationError as error:
            if "answered 50" in error.message and not await self._engine_answers():
                raise ServiceError(ENGINE, f"{self.service} has no engine: {error.message}") from error
            raise
        return read_message(response.content)

    async def refused(self, session_id: str, path: str, body: JsonObject, seconds: float) -> Refused:
        """A request that must be refused, `path` below the session (`v1/messages`). `seconds` bound the exchange.

        Raises VerificationError for 200, and for what `complete` blames on something underneath, InfrastructureError.
        """
        response = await self._exchange("POST", f"/sessions/{session_id}/{path}", body, seconds)
        if response.status_code == 200:
            raise VerificationError(
                "refusal", f"POST {path} answered 200, expected a refusal: {excerpt(response.content)}"
            )
        if response.status_code in (502, 503):
            self._expect(response, 400, "refusal", f"POST {path}")
        return Refused(response.status_code, excerpt(response.content))

    async def offer(
        self, session_id: str, path: str, body: JsonObject, seconds: float, on_sent: Callable[[], object] | None = None
    ) -> Reply | Refused:
        """A turn that may be refused, `path` below the session: the reply, or what was answered in its place.

        `on_sent` is called once the whole request has been handed to the socket. `seconds` bound the exchange. Raises
        what `complete` raises, but for a refusal.
        """
        async with self.opened(session_id, path, body, seconds, on_sent) as response:
            content = await response.aread()
        if response.status_code != 200:
            if response.status_code in (502, 503):
                self._expect(response, 200, "turn", f"POST {path}")
            return Refused(response.status_code, excerpt(content))
        chat = path == CHAT_PATH
        if body.get("stream") is not True:
            return self._read_reply(content) if chat else read_message(content)
        assembler: Reader = Assembler() if chat else MessageAssembler()
        assembler.feed(content)
        return assembler.reply()

    @asynccontextmanager
    async def opened(
        self, session_id: str, path: str, body: JsonObject, seconds: float, on_sent: Callable[[], object] | None = None
    ) -> AsyncIterator[httpx.Response]:
        """The answer to a turn from its status line on; leaving the block before its end closes the connection.

        Raises InfrastructureError when there is no answer or none within `seconds`.
        """

        async def trace(event: str, _: object) -> None:
            if on_sent is not None and event.endswith("send_request_body.complete"):
                on_sent()

        async with (
            self._classified(seconds),
            self._http.stream(
                "POST",
                f"/sessions/{session_id}/{path}",
                content=orjson.dumps(body),
                headers=_JSON,
                extensions={"trace": trace},
            ) as response,
        ):
            yield response

    async def _engine_answers(self) -> bool:
        """What `/ready` says. A server without that route, or without an answer, is no reason to blame the engine."""
        try:
            response = await self._exchange("GET", "/ready")
        except InfrastructureError:
            return True
        return response.status_code != 503

    async def _streamed(self, path: str, body: JsonObject, seconds: float, assembler: Reader) -> Reply:
        async with (
            self._classified(seconds),
            self._http.stream("POST", path, content=orjson.dumps(body), headers=_JSON) as response,
        ):
            if response.status_code != 200:
                await response.aread()
                self._expect(response, 200, "turn", f"POST {path.partition('/v1/')[2]} (stream)")
            kind = response.headers.get("content-type", "")
            if kind.split(";")[0].strip() != "text/event-stream":
                raise VerificationError("sse", f"content-type is {kind!r}, expected 'text/event-stream'")
            async for data in response.aiter_bytes():
                assembler.feed(data)
        return assembler.reply()

    def _read_reply(self, content: bytes) -> Reply:
        what = "the reply to POST chat/completions"
        try:
            orjson.loads(content)
            reply = _ChatReply.model_validate_json(content)
        except ValueError as error:
            raise VerificationError("turn", f"{what} is not a completion ({error}): {excerpt(content)}") from error
        if len(reply.choices) != 1 or reply.choices[0].index != 0:
            raise VerificationError("turn", f"{what} has {len(reply.choices)} choices, expected one with index 0")
        choice = reply.choices[0]
        ids: list[int] | None = None
        if choice.meta_info is not None and choice.meta_info.output_token_logprobs is not None:
            ids = [OutputToken(None, _token_id(entry)).token_id for entry in choice.meta_info.output_token_logprobs]
        return Reply(reply.id, choice.message, choice.finish_reason, reply.usage, ids)

    async def _exchange(
        self, method: str, path: str, body: JsonObject | None = None, seconds: float = CONTROL_SECONDS
    ) -> httpx.Response:
        content = None if body is None else orjson.dumps(body)
        async with self._classified(seconds):
            return await self._http.request(
                method, path, content=content, headers=_JSON if content is not None else None
            )

    @asynccontextmanager
    async def _classified(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise ServiceError(self.service, f"{self.service}: no complete reply within {seconds:g} s") from error
        except httpx.TransportError as error:
            detail = str(error) or "no detail"
            raise ServiceError(self.service, f"{self.service}: {type(error).__name__}: {detail}") from error

    def _expect(self, response: httpx.Response, status: int, stage: str, what: str) -> None:
        if response.status_code == status:
            return
        body = response.content
        text = f"{what} answered {response.status_code}, expected {status}: {excerpt(body)}"
        if response.status_code == 502 and b"backend transport error" in body:
            raise ServiceError(ENGINE, f"{self.service} cannot reach the engine: {text}")
        if response.status_code == 503:
            raise ServiceError(self.service, text)
        raise VerificationError(stage, text)


_JSON = {"content-type": "application/json"}


def _token_id(entry: list[JsonValue]) -> int:
    if len(entry) < 2 or not isinstance(entry[1], int) or isinstance(entry[1], bool):
        raise VerificationError("turn", f"an entry of output_token_logprobs is not [logprob, id, ...]: {entry!r}")
    return entry[1]
