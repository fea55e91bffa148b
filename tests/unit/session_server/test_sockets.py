"""Over real sockets: the connection pool, broken engines, clients that hang up, and the official SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from session_server.app.build import build
from session_server.engine.pool import ConnectError, Pool, ProtocolError, ReadError, ReadTimeoutError
from session_server.tito.families import find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary
from session_testing.engine import Held, Say, ScriptedEngine
from session_testing.live import listening
from session_testing.server import MORE, SYSTEM, TOOL, USER, make_settings

pytestmark = pytest.mark.anyio

CALL = Say("", calls=[("call_1", "get_weather", {"location": "Beijing"})])
RESULT = "22 degrees"


@pytest.fixture(params=["v1", "v2"])
async def live(
    request: pytest.FixtureRequest, qwen: Vocabulary, qwen_path: Path
) -> AsyncIterator[tuple[str, ScriptedEngine]]:
    """A server behind a socket with the scripted engine behind another one."""
    engine = ScriptedEngine(qwen)
    async with listening(engine.app) as engine_url:
        settings = make_settings(qwen_path, engine_url=engine_url, core_version=request.param)
        app = build(settings, bind(find("qwen3"), qwen, settings))
        async with listening(app) as url:
            yield url, engine


async def new_session(url: str) -> str:
    async with httpx.AsyncClient() as http:
        return f"{url}/sessions/{(await http.post(f'{url}/sessions')).json()['session_id']}"


async def records(session: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient() as http:
        document = (await http.get(session)).json()
    assert document["metadata"]["tito_session_mismatch"] == []
    for one, two in zip(document["records"], document["records"][1:], strict=False):
        output = [e[1] for e in one["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
        whole = one["request"]["input_ids"] + output
        assert two["request"]["input_ids"][: len(whole)] == whole
    return document["records"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_openai_sdk_completes_a_tool_dialogue(live: tuple[str, ScriptedEngine], stream: bool) -> None:
    url, engine = live
    session = await new_session(url)
    engine.script = [CALL, Say("Sunny."), Say("Also sunny.")]
    client = openai.AsyncOpenAI(base_url=f"{session}/v1", api_key="secret", max_retries=0)
    history: list[Any] = [SYSTEM, USER]

    async def ask() -> dict[str, Any]:
        if not stream:
            reply = await client.chat.completions.create(model="m", messages=history, tools=[TOOL])  # type: ignore[list-item]
            message: dict[str, Any] = reply.choices[0].message.model_dump(exclude_none=True)
            return message
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                model="m",
                messages=history,
                tools=[TOOL],  # type: ignore[list-item]
                stream=True,
            )
        ]
        [delta] = [chunk.choices[0].delta for chunk in chunks]
        return delta.model_dump(exclude_none=True)

    history += [await ask(), {"role": "tool", "tool_call_id": "call_1", "content": RESULT}]
    history += [await ask(), MORE]
    history += [await ask()]
    assert history[-1]["content"] == "Also sunny."
    assert len(await records(session)) == 3
    assert "secret" not in str(engine.headers)
    await client.close()


@pytest.mark.parametrize("stream", [False, True])
async def test_the_anthropic_sdk_completes_a_tool_dialogue(live: tuple[str, ScriptedEngine], stream: bool) -> None:
    url, engine = live
    session = await new_session(url)
    engine.script = [CALL, Say("Sunny."), Say("Also sunny.")]
    client = anthropic.AsyncAnthropic(base_url=session, api_key="secret", max_retries=0)
    tool: Any = {"name": "get_weather", "input_schema": {"type": "object"}}
    history: list[Any] = [{"role": "user", "content": USER["content"]}]

    async def ask(choice: Any) -> anthropic.types.Message:
        arguments: dict[str, Any] = {
            "model": "m",
            "max_tokens": 99,
            "messages": history,
            "tools": [tool],
            "tool_choice": choice,
            "system": "Assist.",
        }
        if not stream:
            message: anthropic.types.Message = await client.messages.create(**arguments)
            return message
        async with client.messages.stream(**arguments) as events:
            return await events.get_final_message()

    first = await ask({"type": "tool", "name": "get_weather"})
    assert (first.stop_reason, first.content[-1].type) == ("tool_use", "tool_use")
    assert first.content[-1].input == {"location": "Beijing"}  # type: ignore[union-attr]
    history += [{"role": "assistant", "content": [block.to_dict() for block in first.content]}]
    history += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": RESULT}]}]
    second = await ask({"type": "none"})
    assert (second.stop_reason, second.content[-1].type) == ("end_turn", "text")
    history += [{"role": "assistant", "content": [block.to_dict() for block in second.content]}]
    history += [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And Shanghai?"}]
    third = await ask({"type": "none"})
    assert third.content[-1].text == "Also sunny."  # type: ignore[union-attr]
    assert len(await records(session)) == 3
    counted = await client.messages.count_tokens(model="m", messages=history, system="Assist.", tools=[tool])
    assert counted.input_tokens == len(engine.requests[-1]["input_ids"])
    await client.close()


async def test_sdk_errors_carry_the_servers_words(live: tuple[str, ScriptedEngine]) -> None:
    url, engine = live
    engine.script = [Say("Cut", finish="length")]
    session = await new_session(url)
    async with anthropic.AsyncAnthropic(base_url=session, api_key="x", max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError, match="thinking is not supported by this endpoint"):
            await client.messages.create(
                model="m",
                max_tokens=9,
                messages=[{"role": "user", "content": "x"}],
                thinking={"type": "enabled", "budget_tokens": 2048},
            )
    async with openai.AsyncOpenAI(base_url=f"{session}/v1", api_key="x", max_retries=0) as client:
        cut = await client.chat.completions.create(model="m", messages=[USER])  # type: ignore[list-item]
        history: list[Any] = [USER, cut.choices[0].message.model_dump(exclude_none=True), MORE]
        with pytest.raises(openai.ConflictError, match="truncated generation cannot be extended"):
            await client.chat.completions.create(model="m", messages=history)


async def test_a_client_that_hangs_up_withdraws_its_turn(live: tuple[str, ScriptedEngine]) -> None:
    url, engine = live
    session = await new_session(url)
    held = Held()
    engine.script = [held, Say("Second.")]
    async with httpx.AsyncClient() as http:
        turn = asyncio.create_task(http.post(f"{session}/v1/chat/completions", json={"messages": [USER]}))
        await held.arrived.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

        async def retried() -> httpx.Response:
            while True:
                response = await http.post(f"{session}/v1/chat/completions", json={"messages": [USER]})
                if response.status_code != 409:
                    return response

        response = await asyncio.wait_for(retried(), 10)
        assert response.json()["choices"][0]["message"]["content"] == "Second."
        held.release.set()
        assert len((await http.get(session)).json()["records"]) == 1


async def test_a_shutdown_lets_the_turn_in_flight_finish_and_be_recorded(qwen: Vocabulary, qwen_path: Path) -> None:
    engine = ScriptedEngine(qwen)
    held = Held()
    engine.script = [held]
    async with listening(engine.app) as engine_url:
        settings = make_settings(qwen_path, engine_url=engine_url, core_version="v1")
        app = build(settings, bind(find("qwen3"), qwen, settings))
        server = listening(app)
        session = await new_session(await server.__aenter__())
        async with httpx.AsyncClient() as http:
            turn = asyncio.create_task(http.post(f"{session}/v1/chat/completions", json={"messages": [USER]}))
            await held.arrived.wait()
            closing = asyncio.create_task(server.__aexit__(None, None, None))
            await asyncio.sleep(0)
            assert not closing.done()
            held.release.set()
            assert (await turn).status_code == 200
            await closing
        stored = app.state.service.store.get(session.rpartition("/")[2])
        assert len(stored.state.turns) == 1


async def test_an_engine_that_is_not_there_is_a_502(qwen: Vocabulary, qwen_path: Path) -> None:
    settings = make_settings(qwen_path, engine_url="http://127.0.0.1:9", core_version="v1")
    async with listening(build(settings, bind(find("qwen3"), qwen, settings))) as url, httpx.AsyncClient() as http:
        session = await new_session(url)
        response = await http.post(f"{session}/v1/chat/completions", json={"messages": [USER]})
        assert response.status_code == 502
        assert response.json()["error"].startswith("backend transport error: ConnectError: ")
        assert (await http.get(f"{url}/ready")).status_code == 503
        assert (await http.get(f"{url}/health")).status_code == 200


# -- the pool itself, against servers that misbehave ---------------------------------------------------------------

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
