"""Keep-alive HTTP/1.1 connections to one address: `h11` for the protocol, asyncio for the sockets.

A general client costs more per turn than everything else in this server together. This one does what the engine needs
and no more: whole requests, whole answers, no redirects, cookies, proxies or compression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import h11

_JOINED = 16 * 1024
"""Bodies below this size, in bytes, leave in one write with their head."""


class TransportError(Exception):
    """No whole answer came."""


class ConnectError(TransportError):
    """The address did not take a connection."""


class ConnectTimeoutError(TransportError):
    """The address did not answer a connection attempt in time."""


class ReadTimeoutError(TransportError):
    """The answer was not complete in time."""


class ReadError(TransportError):
    """The connection broke before the answer was complete."""


class ProtocolError(TransportError):
    """The answer is not HTTP/1.1."""


@dataclass(slots=True)
class Answer:
    """Status, headers in lower case, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Connection(asyncio.Protocol):
    """One socket and the exchange that is under way on it."""

    def __init__(self) -> None:
        self.h11 = h11.Connection(our_role=h11.CLIENT)
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.silent = True
        self._waiter: asyncio.Future[Answer] | None = None
        self._response: h11.Response | None = None
        self._chunks: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket: a stream transport by contract, though other event loops have classes of their own."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        self.silent = False
        self._advance(data)

    def eof_received(self) -> None:
        """The engine will send no more."""
        self._advance(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what is under way."""
        self.closed = True
        self._fail(ReadError(f"the engine closed the connection{f': {error}' if error else ''}"))

    def _advance(self, data: bytes) -> None:
        try:
            self.h11.receive_data(data)
            while True:
                event = self.h11.next_event()
                if isinstance(event, h11.Response):
                    self._response = event
                elif isinstance(event, h11.Data):
                    self._chunks.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._finish()
                    return
                elif not isinstance(event, h11.InformationalResponse):
                    return
        except h11.RemoteProtocolError as error:
            self._fail(ReadError(str(error)) if not data else ProtocolError(str(error)))
            self.abort()

    def _finish(self) -> None:
        response, waiter = self._response, self._waiter
        if response is None or waiter is None or waiter.done():
            self.abort()
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        waiter.set_result(Answer(response.status_code, headers, b"".join(self._chunks)))

    def _fail(self, error: TransportError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def exchange(self, request: h11.Request, content: bytes) -> Answer:
        """Send a request and wait for its whole answer."""
        if self.transport is None:
            raise ConnectError("the connection was never made")
        self._response, self._chunks, self.silent = None, [], True
        self._waiter = asyncio.get_running_loop().create_future()
        head = self.h11.send(request) or b""
        if len(content) < _JOINED:
            self.transport.write(head + self._framed(content))
        else:
            # a long prompt is not copied once more only to save a call
            self.transport.write(head)
            self.transport.write(self._framed(content))
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def _framed(self, content: bytes) -> bytes:
        body = self.h11.send(h11.Data(data=content)) if content else None
        return (body or b"") + (self.h11.send(h11.EndOfMessage()) or b"")

    def reusable(self) -> bool:
        """Make ready for the next exchange; False when the connection has to be closed."""
        if self.closed or self.h11.our_state is not h11.DONE or self.h11.their_state is not h11.DONE:
            return False
        self.h11.start_next_cycle()
        return True

    def abort(self) -> None:
        """Close at once; the engine takes that as a withdrawal of the request."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()


class Pool:
    """At most `max_connections` connections to the host of `base_url`. Time-outs are in seconds."""

    def __init__(self, base_url: str, *, connect_timeout_seconds: float, max_connections: int) -> None:
        parts = urlsplit(base_url)
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls is not None else 80)
        self._prefix = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._connect_timeout = connect_timeout_seconds
        self._idle: deque[_Connection] = deque()
        self._places = asyncio.Semaphore(max_connections)

    async def send(
        self, method: str, path: str, headers: Iterable[tuple[str, str]], content: bytes, *, timeout_seconds: float
    ) -> Answer:
        """One exchange, within `timeout_seconds` from the first byte sent to the last one read.

        Raises:
            TransportError: there is no whole answer.
        """
        request = h11.Request(
            method=method,
            target=self._prefix + path,
            headers=[
                ("host", self._authority),
                ("accept-encoding", "identity"),
                ("content-length", str(len(content))),
                *headers,
            ],
        )
        async with self._places:
            try:
                async with asyncio.timeout(timeout_seconds):
                    return await self._exchange(request, content)
            except TimeoutError as error:
                raise ReadTimeoutError(f"no complete answer within {timeout_seconds:g} s") from error

    async def _exchange(self, request: h11.Request, content: bytes) -> Answer:
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._on(connection, request, content)
            except ReadError:
                # an idle connection that the engine closed while this request was on its way: not one byte was answered
                if not connection.silent:
                    raise
        return await self._on(await self._connect(), request, content)

    async def _on(self, connection: _Connection, request: h11.Request, content: bytes) -> Answer:
        try:
            answer = await connection.exchange(request, content)
        except BaseException:
            connection.abort()
            raise
        if connection.reusable():
            self._idle.append(connection)
        else:
            connection.abort()
        return answer

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(_Connection, self._host, self._port, ssl=self._tls)
        except TimeoutError as error:
            raise ConnectTimeoutError(f"no connection within {self._connect_timeout:g} s") from error
        except OSError as error:
            raise ConnectError(str(error)) from error
        return connection

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().abort()
