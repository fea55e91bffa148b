"""The connections to the engine, against servers that misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from session_server.engine.pool import ConnectError, Pool, ProtocolError, ReadError, ReadTimeoutError

pytestmark = pytest.mark.anyio

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Peer:
    """A server of one handler; counts its connections."""

    def __init__(self, handler: Handler) -> None:
        self.connections = 0
        self._handler = handler

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.pool = Pool(
            f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/base",
            connect_timeout_seconds=5,
            max_connections=2,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.pool.aclose()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def get(self, timeout_seconds: float = 5.0) -> Any:
        return await self.pool.send("GET", "/x", [], (), timeout_seconds=timeout_seconds)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_connections_are_kept_and_used_again() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            assert (await read_head(reader)).startswith(b"GET /base/x HTTP/1.1\r\n")
            writer.write(OK)

    async with Peer(handler) as peer:
        for _ in range(3):
            answer = await peer.get()
            assert (answer.status, answer.body) == (200, b"ok")
        assert peer.connections == 1


async def test_a_connection_that_the_engine_closed_between_requests_is_replaced() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK)
        await writer.drain()

    async with Peer(handler) as peer:
        for _ in range(3):
            assert (await peer.get()).body == b"ok"
        assert peer.connections == 3


async def test_a_connection_whose_end_has_just_come_is_not_used_again() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_head(reader)
            writer.write(OK)

    async with Peer(handler) as peer:
        assert (await peer.get()).body == b"ok"
        [idle] = peer.pool._idle
        idle.eof_received()
        assert (await peer.get()).body == b"ok"
        assert peer.connections == 2


async def test_chunked_and_close_delimited_bodies_are_read_whole() -> None:
    bodies = [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcde",
    ]

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        for byte in bodies.pop(0):
            writer.write(bytes([byte]))
            await writer.drain()

    async with Peer(handler) as peer:
        assert (await peer.get()).body == b"abcde"
        assert (await peer.get()).body == b"abcde"


async def test_an_answer_that_breaks_off_is_an_error_and_not_tried_again() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nab")
        await writer.drain()

    async with Peer(handler) as peer:
        with pytest.raises(ReadError):
            await peer.get()
        assert peer.connections == 1


async def test_what_is_not_http_is_said_to_be_so() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with Peer(handler) as peer:
        with pytest.raises(ProtocolError):
            await peer.get()


async def test_an_answer_that_takes_too_long_is_given_up_and_its_connection_closed() -> None:
    closed = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        await reader.read()
        closed.set()

    async with Peer(handler) as peer:
        with pytest.raises(ReadTimeoutError, match=r"no complete answer within 0\.05 s"):
            await peer.get(timeout_seconds=0.05)
        await asyncio.wait_for(closed.wait(), 5)


async def test_a_withdrawn_request_closes_its_connection() -> None:
    closed, arrived = asyncio.Event(), asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        arrived.set()
        await reader.read()
        closed.set()

    async with Peer(handler) as peer:
        waiting = asyncio.create_task(peer.get())
        await arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(closed.wait(), 5)


async def test_no_more_connections_than_allowed_are_opened() -> None:
    release, both = asyncio.Event(), asyncio.Semaphore(0)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_head(reader)
            both.release()
            await release.wait()
            writer.write(OK)

    async with Peer(handler) as peer:
        waiting = [asyncio.create_task(peer.get()) for _ in range(6)]
        await asyncio.wait_for(both.acquire(), 5)
        await asyncio.wait_for(both.acquire(), 5)
        release.set()
        assert [answer.body for answer in await asyncio.gather(*waiting)] == [b"ok"] * 6
        assert peer.connections == 2


@pytest.mark.parametrize(
    "unasked",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", id="a whole answer"),
        pytest.param(b"HTTP/1.1 2", id="the start of one"),
        pytest.param(b"noise", id="noise"),
    ],
)
async def test_bytes_that_nothing_asked_for_are_not_the_next_answer(unasked: bytes) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK + unasked)
        await reader.read()

    async with Peer(handler) as peer:
        for _ in range(3):
            answer = await peer.get()
            assert (answer.status, answer.headers, answer.body) == (200, {"content-length": "2"}, b"ok")
        assert peer.connections == 3


async def test_an_answer_comes_with_its_own_headers() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in (b"1", b"2"):
            await read_head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nX-%b: \xe9\r\ncontent-length: 0\r\n\r\n" % number)

    async with Peer(handler) as peer:
        answers = [await peer.get(), await peer.get()]
        assert [answer.headers for answer in answers] == [
            {"x-1": "é", "content-length": "0"},
            {"x-2": "é", "content-length": "0"},
        ]


async def test_an_upgrade_is_no_answer() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n")
        await reader.read()

    async with Peer(handler) as peer:
        with pytest.raises(ProtocolError):
            await peer.get()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/x", [("a", "b\r\nc: d")], id="a header in a header"),
        pytest.param("/x", [("a", "b\nc")], id="half a line break"),
        pytest.param("/x", [("a\0", "b")], id="nul"),
        pytest.param("/x", [("a", "東京")], id="no single bytes"),
        pytest.param("/x HTTP/1.1\r\na: b", [], id="a header in the path"),
        pytest.param("/x y", [], id="a space in the path"),
    ],
)
async def test_nothing_can_be_smuggled_into_a_request(path: str, headers: list[tuple[str, str]]) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(OK)

    async with Peer(handler) as peer:
        with pytest.raises(ProtocolError):
            await peer.pool.send("GET", path, headers, (), timeout_seconds=5)
        assert peer.connections == 0
        assert (await peer.pool.send("GET", "/x", [("a", "é")], (), timeout_seconds=5)).status == 200


async def test_a_port_that_nobody_listens_on_is_a_connect_error() -> None:
    pool = Pool("http://127.0.0.1:9", connect_timeout_seconds=5, max_connections=1)
    with pytest.raises(ConnectError):
        await pool.send("GET", "/", [], (), timeout_seconds=5)
