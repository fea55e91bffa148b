"""Keep-alive HTTP/1.1 connections to one address: `httptools` reads the answers, asyncio has the sockets.

A general client costs more per turn than everything else in this server together. This one does what the engine needs
and no more: whole requests, whole answers, no redirects, cookies, proxies or compression.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools


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
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.silent = True
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._headed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket: a stream transport by contract, though other event loops have classes of their own."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        self.silent = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ProtocolError(f"not an answer in HTTP/1.1: {error}"))
            self.abort()

    def eof_received(self) -> None:
        """The engine will send no more: the end of a body that says neither its length nor its chunks."""
        self.closed = True
        if self._headed and not self._framed():
            self._finish(keep=False)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what is under way."""
        self.closed = True
        self._fail(ReadError(f"the engine closed the connection{f': {error}' if error else ''}"))

    def on_message_begin(self) -> None:
        """Called by the parser; bytes that nothing asked for must not be taken for the next answer."""
        if self._waiter is None or self._waiter.done():
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; of a header that comes twice the last one counts."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._headed = True

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        """Called by the parser; an informational answer is not the answer yet."""
        if self._parser.get_status_code() < 200:
            self._reset()
        else:
            self._finish(keep=self._parser.should_keep_alive())

    def _framed(self) -> bool:
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    def _finish(self, *, keep: bool) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.abort()
            return
        if not keep:
            self.closed = True
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        waiter.set_result(Answer(self._parser.get_status_code(), self._headers, body))
        self._reset()

    def _fail(self, error: TransportError) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    async def exchange(self, head: bytes, content: Sequence[bytes]) -> Answer:
        """Send a request and wait for its whole answer."""
        if self.transport is None:
            raise ConnectError("the connection was never made")
        self._reset()
        self.silent = True
        self._waiter = asyncio.get_running_loop().create_future()
        # a long prompt is not copied only to be sent in one piece
        self.transport.writelines((head, *content))
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Close at once; the engine takes that as a withdrawal of the request."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()


def _head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Request line and headers.

    Raises:
        ProtocolError: a part would end its line early, or is not of one byte per character.
    """
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    text = "\r\n".join(lines)
    breaks = len(lines) - 1
    if text.count("\r") != breaks or text.count("\n") != breaks or "\0" in text or lines[0].count(" ") != 2:
        raise ProtocolError("a header or the path of the request has a character that HTTP does not allow there")
    try:
        return f"{text}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError as error:
        raise ProtocolError(f"a header of the request cannot be written: {error}") from error


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
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        content: Sequence[bytes],
        *,
        timeout_seconds: float,
    ) -> Answer:
        """One exchange, its body in pieces, within `timeout_seconds` from the first byte sent to the last one read.

        Raises:
            TransportError: there is no whole answer.
        """
        head = _head(
            method,
            self._prefix + path,
            (
                ("host", self._authority),
                ("accept-encoding", "identity"),
                ("content-length", str(sum(map(len, content)))),
                *headers,
            ),
        )
        async with self._places:
            try:
                async with asyncio.timeout(timeout_seconds):
                    return await self._exchange(head, content)
            except TimeoutError as error:
                raise ReadTimeoutError(f"no complete answer within {timeout_seconds:g} s") from error

    async def _exchange(self, head: bytes, content: Sequence[bytes]) -> Answer:
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._on(connection, head, content)
            except ReadError:
                # an idle connection that the engine closed while this request was on its way: not one byte was answered
                if not connection.silent:
                    raise
        return await self._on(await self._connect(), head, content)

    async def _on(self, connection: _Connection, head: bytes, content: Sequence[bytes]) -> Answer:
        try:
            answer = await connection.exchange(head, content)
        except BaseException:
            connection.abort()
            raise
        if connection.closed:
            connection.abort()
        else:
            self._idle.append(connection)
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
