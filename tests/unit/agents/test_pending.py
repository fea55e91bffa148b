"""Turns that are left: what the server sees of it, and what the client says of it.

The server is a few lines on a socket in the same event loop, so that each test decides when it answers and sees when
its client has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
import orjson
import pytest

from runner.agents.pending import Pending, leave_begun
from runner.agents.session import CHAT_PATH, Refused, SessionClient
from runner.base.errors import VerificationError
from tests.unit.agents.test_session import GOOD

SECONDS = 10.0
"""Bound of every wait; none of them is meant to be long."""


@dataclass
class Server:
    """Answers GET at once, and a turn as `turn` says: the bytes to send, after `release`, then it waits for the end."""

    turn: bytes
    has_it: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    looked: int = 0
    look: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        while head := await reader.readuntil(b"\r\n\r\n"):
            if head.startswith(b"GET"):
                self.looked += 1
                writer.write(self.look)
                continue
            length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
            await reader.readexactly(length)
            self.has_it.set()
            waiting = asyncio.create_task(self.release.wait())
            closing = asyncio.create_task(reader.read())
            await asyncio.wait({waiting, closing}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not closing.done():
                writer.write(self.turn)
                await closing
            self.gone.set()
            break


def whole(status: int, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status} So\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def with_server(turn: bytes, act: Callable[[Server, SessionClient], Awaitable[None]]) -> Server:
    server = Server(turn)

    async def run() -> None:
        done: list[asyncio.Event] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            done.append(asyncio.Event())
            ended = done[-1]
            try:
                await server.serve(reader, writer)
            except asyncio.IncompleteReadError:
                pass  # the client has closed an idle connection
            finally:
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)
                ended.set()

        listening = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        async with listening, asyncio.timeout(SECONDS):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
                await act(server, SessionClient(http, "session-v1"))
            for ended in done:
                await ended.wait()

    asyncio.run(run())
    return server


async def begun(client: SessionClient) -> Pending:
    return await Pending.begin(client, "s1", CHAT_PATH, {"stream": False}, SECONDS)


def test_a_turn_is_begun_when_the_server_has_it_and_left_by_closing_the_connection() -> None:
    async def act(server: Server, client: SessionClient) -> None:
        pending = await begun(client)
        assert server.has_it.is_set(), "its last byte was read before the server answered what was asked since"
        assert server.looked == 2
        assert await pending.leave() is False
        await server.gone.wait()

    with_server(whole(200, orjson.dumps(GOOD)), act)


def test_a_turn_that_is_waited_for_brings_its_reply() -> None:
    async def act(server: Server, client: SessionClient) -> None:
        pending = await begun(client)
        server.release.set()
        assert (await pending.answer()).id == "r1"  # type: ignore[union-attr]
        assert await pending.leave() is True, "its reply came, so that the server has recorded it"

    with_server(whole(200, orjson.dumps(GOOD)), act)


def test_a_refused_turn_cannot_be_left() -> None:
    async def act(server: Server, client: SessionClient) -> None:
        pending = await begun(client)
        server.release.set()
        assert await pending.answer() == Refused(409, '{"error":"session busy"}')
        with pytest.raises(VerificationError, match="answered 409, expected 200"):
            await pending.leave()

    with_server(whole(409, b'{"error":"session busy"}'), act)


def test_a_server_that_cannot_be_asked_meanwhile_ends_the_turn_as_well() -> None:
    async def act(server: Server, client: SessionClient) -> None:
        server.look = b"HTTP/1.1 404 So\r\ncontent-length: 0\r\n\r\n"
        with pytest.raises(VerificationError, match="answered 404"):
            await begun(client)
        await server.gone.wait()

    with_server(b"", act)


@pytest.mark.parametrize("into_body", [True, False])
def test_a_reply_that_has_begun_is_left_without_waiting_for_its_end(into_body: bool) -> None:
    """The server sends the status line and the first of a hundred bytes, and never the rest."""
    unfinished = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100\r\n\r\ndata: {"

    async def act(server: Server, client: SessionClient) -> None:
        server.release.set()
        await leave_begun(client, "s1", CHAT_PATH, {"stream": True}, SECONDS, into_body=into_body)
        await server.gone.wait()

    with_server(unfinished, act)


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (whole(409, b'{"error":"session busy"}'), "answered 409, expected 200"),
        (whole(200, b"", "text/event-stream"), "answered 200 with an empty body"),
    ],
)
def test_a_reply_that_never_begins_is_a_failed_check(turn: bytes, message: str) -> None:
    async def act(server: Server, client: SessionClient) -> None:
        server.release.set()
        with pytest.raises(VerificationError, match=message):
            await leave_begun(client, "s1", CHAT_PATH, {"stream": True}, SECONDS, into_body=True)

    with_server(turn, act)
