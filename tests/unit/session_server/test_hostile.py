"""What a client or an engine can send that is JSON and still fits nowhere: a plain refusal, and nothing recorded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from session_server.core.errors import InvalidError
from session_server.wire.anthropic.request import parse_messages
from session_server.wire.openai import check_chat
from session_testing.engine import Raw, Say
from session_testing.messages import ASK, TOOL, send
from session_testing.server import USER, Client

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["v1", "v2"])
async def client(request: pytest.FixtureRequest, start):
    async with start(core_version=request.param) as running:
        yield running


UNWRITABLE = {
    "half of a surrogate pair": '{"city": "\\ud800"}',
    "half of one as a key": '{"\\uDC00": 1}',
    "larger than a number": '{"x": 1e999}',
    "larger, below zero": '{"x": [-1e400]}',
}


def called(arguments: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


@pytest.mark.parametrize("arguments", UNWRITABLE.values(), ids=list(UNWRITABLE))
async def test_arguments_in_a_history_that_cannot_be_written_are_refused(client: Client, arguments: str) -> None:
    session = await client.session()
    before = await client.snapshot(session)
    response = await client.chat(session, [USER, called(arguments), USER])
    assert response.status_code == 400
    assert response.json()["error"].startswith("messages[1].tool_calls[0].function.arguments: not valid JSON: ")
    assert await client.snapshot(session) == before


@pytest.mark.parametrize("route", ["chat/completions", "messages"])
@pytest.mark.parametrize("arguments", UNWRITABLE.values(), ids=list(UNWRITABLE))
async def test_sampled_arguments_that_cannot_be_written_are_not_recorded(
    client: Client, arguments: str, route: str
) -> None:
    session = await client.session()
    client.engine.script = [Say("", calls=[("call_1", "get_weather", arguments)])]
    before = await client.snapshot(session)
    ask = client.chat if route == "chat/completions" else lambda *of: send(client, *of)
    response = await ask(session, [ASK])
    assert response.status_code == 502
    assert await client.snapshot(session) == before


async def test_whole_surrogate_pairs_and_large_numbers_are_arguments(client: Client) -> None:
    session = await client.session()
    arguments = '{"city": "\\ud83d\\ude00", "x": 1e300, "n": 123456789012345678901234567890}'
    client.engine.script = [Say("", calls=[("call_1", "get_weather", arguments)])]
    message = await client.said(session, [USER])
    assert message["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize("depth", [128, 129, 240, 330, 500, 970])
@pytest.mark.parametrize("path", ["messages", "messages/count_tokens", "chat/completions"])
async def test_arguments_are_nested_as_deep_as_all_can_follow(client: Client, path: str, depth: int) -> None:
    deep = '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)
    said = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "deep"}]}
    if path == "chat/completions":
        said = called(deep)
    body = orjson.dumps({"model": "m", "max_tokens": 9, "messages": [ASK, said, ASK]})
    response = await client.http.post(
        f"{await client.session()}/v1/{path}", content=body.replace(b'"deep"', deep.encode())
    )
    assert response.status_code == (200 if depth == 128 else 400), response.text


@pytest.mark.parametrize("depth", [100, 330, 500, 970])
@pytest.mark.parametrize("path", ["messages", "messages/count_tokens"])
async def test_the_schema_of_a_tool_too_deep_to_be_written_is_refused(client: Client, path: str, depth: int) -> None:
    deep = '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)
    tool = {"name": "f", "input_schema": "deep"}
    body = orjson.dumps({"model": "m", "max_tokens": 9, "messages": [ASK], "tools": [tool]})
    response = await client.http.post(
        f"{await client.session()}/v1/{path}", content=body.replace(b'"deep"', deep.encode())
    )
    counted = path == "messages/count_tokens" and depth < 970
    assert response.status_code in ((200,) if depth == 100 else (200, 400) if counted else (400,)), response.text


async def test_sampled_arguments_that_nothing_could_follow_are_not_recorded(client: Client) -> None:
    session = await client.session()
    client.engine.script = [Say("", calls=[("c", "f", '{"a":' * 128 + "{}" + "}" * 128)])]
    response = await client.chat(session, [USER])
    assert (response.status_code, len((await client.view(session))["records"])) == (502, 0)


async def test_a_generation_may_take_longer_than_a_session_may_be_idle(client: Client) -> None:
    store = client.service.store
    now = [0.0]
    store._clock = lambda: now[0]
    session = await client.session()

    class Slow(Say):
        def reply(self, *of: Any) -> dict[str, Any]:
            now[0] += 2 * client.service.settings.session_idle_seconds
            return super().reply(*of)

    client.engine.script = [Slow()]
    await client.said(session, [USER])
    assert len((await client.view(session))["records"]) == 1
    now[0] += client.service.settings.session_idle_seconds + 1
    assert (await client.http.get(session)).status_code == 404


DEEP = b'{"a":' * 300 + b"1" + b"}" * 300


async def test_a_reply_that_can_be_read_but_not_written_is_not_recorded(client: Client) -> None:
    session = await client.session()
    choice = orjson.dumps(
        {
            "message": {"role": "assistant", "content": "x"},
            "finish_reason": "stop",
            "meta_info": {"completion_tokens": 1, "output_token_logprobs": [[-1, 5]]},
        }
    )
    client.engine.script = [Raw(b'{"choices":[%b],"z":%b}' % (choice, DEEP))]
    response = await client.chat(session, [USER], max_tokens=1)
    assert (response.status_code, len((await client.view(session))["records"])) == (502, 0)
    assert "nested too deeply" in response.json()["error"]


@pytest.mark.parametrize("route", ["chat/completions", "messages"])
@pytest.mark.parametrize("status", [201, 204, 302, 304])
async def test_an_answer_that_is_neither_a_generation_nor_a_refusal_is_a_bad_gateway(
    client: Client, status: int, route: str
) -> None:
    session = await client.session()
    client.engine.script = [Raw(b"" if status in (204, 304) else b"{}", status=status)]
    ask = client.chat if route == "chat/completions" else lambda *of: send(client, *of)
    response = await ask(session, [ASK])
    assert (response.status_code, len((await client.view(session))["records"])) == (502, 0)


@pytest.mark.parametrize(
    ("matched", "end", "finish"),
    [
        ("END", None, "stop"),
        ("last", "<|endoftext|>", "stop"),
        (None, None, "length"),
        (5, None, "length"),
        ("", None, "length"),
    ],
)
async def test_a_full_budget_is_a_cut_unless_the_engine_names_the_stop_it_met(
    client: Client, matched: str | int | None, end: str | None, finish: str
) -> None:
    session = await client.session()
    text = "abc END"
    ids = client.engine.vocabulary.encode(text + (end or "")).tolist()
    choice = {"matched_stop": ids[-1] if matched == "last" else matched}
    client.engine.script = [Say("abc", text=text, end=end, choice=choice)]
    response = await client.chat(session, [USER], max_tokens=len(ids), stop=["END"])
    assert response.json()["choices"][0]["finish_reason"] == finish


@pytest.mark.parametrize(
    "arguments",
    [
        '{"x": 123456789012345678901234567890}',
        '{"x": 18446744073709551616}',
        '{"x": 0.12345678901234567890123}',
        '{"x": 1.0}',
        '{"x": 1, "x": 2}',
        '{"x": {"y": 1, "y": [1.50]}}',
    ],
)
async def test_a_call_that_a_parser_cannot_keep_is_recognised_when_it_comes_back(start, arguments: str) -> None:
    async with start(core_version="v2") as client:
        session = await client.session()
        client.engine.script = [Say("", calls=[("call_1", "get_weather", arguments)])]
        content = (await send(client, session, [ASK], tools=[TOOL])).json()["content"]
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "Sunny."}
        messages = [ASK, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        assert (await send(client, session, messages, tools=[TOOL])).status_code == 200
        nodes = (await client.view(session))["metadata"]["tree"]["nodes"]
        assert [node["parent"] for node in nodes] == [None, 0]


async def test_another_call_is_not_the_one_that_was_sampled(start) -> None:
    async with start(core_version="v2") as client:
        session = await client.session()
        client.engine.script = [Say("", calls=[("call_1", "get_weather", '{"x": 1, "y": true}')])]
        content = (await send(client, session, [ASK], tools=[TOOL])).json()["content"]
        for block in content:
            if block["type"] == "tool_use":
                block["input"] = {"x": 1, "y": 1}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "Sunny."}
        messages = [ASK, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
        assert (await send(client, session, messages, tools=[TOOL])).status_code == 200
        nodes = (await client.view(session))["metadata"]["tree"]["nodes"]
        assert [node["parent"] for node in nodes] == [None, None]


async def test_each_streamed_call_has_its_own_arguments(client: Client) -> None:
    sampled = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": [3]}}}
    client.engine.script = [Say("", calls=[("c", "f", '{"x": 1}'), ("c", "f", '{"x":2}'), ("c", "f", "")])]
    client.engine.script.append(Say("", calls=[("c", "f", '{"x": [3]}')], message={"tool_calls": [sampled]}))
    texts = [(await send(client, await client.session(), [ASK], stream=True)).text for _ in range(2)]
    deltas = [
        [
            event["delta"]["partial_json"]
            for line in text.splitlines()
            if line.startswith("data: ") and (event := orjson.loads(line[6:]))["type"] == "content_block_delta"
            if event["delta"]["type"] == "input_json_delta"
        ]
        for text in texts
    ]
    assert deltas == [['{"x": 1}', '{"x":2}'], ['{"x": [3]}']]


def chat(**fields: Any) -> Callable[[], object]:
    return lambda: check_chat({"messages": [USER], **fields})


def message(**fields: Any) -> Callable[[], object]:
    return lambda: parse_messages({"model": "m", "max_tokens": 1, "messages": [ASK], **fields})


MANY: list[Any] = [[]] * 100_000


@pytest.mark.parametrize(
    "check",
    [
        chat(messages=MANY),
        chat(tools=MANY),
        chat(messages=[{"role": "user", "content": MANY}]),
        chat(messages=[{"role": "assistant", "content": "", "tool_calls": MANY}]),
        message(messages=MANY),
        message(messages=[{"role": "user", "content": MANY}]),
        message(messages=[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": MANY}]}]),
        *(message(**{field: MANY}) for field in ("system", "tools", "stop_sequences", "betas")),
    ],
)
def test_a_hundred_thousand_faults_cost_no_more_than_one(check: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidError) as refused:
            check()
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 600


async def test_a_refusal_does_not_repeat_what_the_client_sent_at_length(client: Client) -> None:
    response = await client.chat(await client.session(), [{"role": "user", "content": [{"type": "x" * 100_000}]}])
    assert response.status_code == 400
    assert 100 < len(response.text) < 700
