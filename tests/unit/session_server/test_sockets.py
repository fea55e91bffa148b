"""Over real sockets: broken engines, clients that hang up, and the official SDKs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from session_server.app.build import build
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


@pytest.mark.parametrize(
    "begun",
    [b"x-long: ", b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-long: "],
    ids=["header", "trailer"],
)
async def test_what_is_no_body_and_has_no_end_is_refused(live: tuple[str, ScriptedEngine], begun: bytes) -> None:
    url = await new_session(live[0])
    host, _, port = live[0].removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = url.removeprefix(live[0]).encode()
    writer.write(b"POST %b/v1/chat/completions HTTP/1.1\r\nhost: x\r\n%b" % (path, begun))
    refused = b""
    async with asyncio.timeout(20):
        # what was still on its way may have come behind the end of the connection
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                writer.write(b"a" * 65_536)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            refused = await reader.read(1024)
    assert refused == b"" or refused.startswith(b"HTTP/1.1 431 ")
    writer.close()
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{live[0]}/health", headers={"x-long": "a" * 60_000})).status_code == 200


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
