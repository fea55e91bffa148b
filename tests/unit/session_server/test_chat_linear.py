"""v1 end to end over HTTP: what reaches the engine, what is recorded, what is refused."""

from __future__ import annotations

import itertools

import pytest
from session_server.core.tokens import pack
from session_server.tito.codec import Codec
from session_testing.engine import Raw, Say
from session_testing.server import MORE, SYSTEM, TOOL, USER, Client

pytestmark = pytest.mark.anyio


async def test_first_turn_sends_the_full_render_as_ids_and_records_it(v1: Client) -> None:
    session = await v1.session()
    response = await v1.chat(session, [SYSTEM, USER], temperature=0.7)
    assert response.status_code == 200
    sent = v1.engine.requests[0]
    text = v1.engine.vocabulary.decode(sent["input_ids"])
    assert text == (
        "<|im_start|>system\nYou are a weather assistant.<|im_end|>\n"
        "<|im_start|>user\nWhat is the weather in Beijing?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert sent["logprobs"] is True and sent["return_meta_info"] is True and sent["no_stop_trim"] is False
    assert sent["temperature"] == 0.7 and "stream" not in sent
    document = await v1.view(session)
    [record] = document["records"]
    assert record["request"] == sent
    assert record["response"] == response.json()
    assert (record["method"], record["path"], record["status_code"]) == ("POST", "/v1/chat/completions", 200)
    assert record["request_timestamp"] <= record["timestamp"]
    output = [entry[1] for entry in response.json()["choices"][0]["meta_info"]["output_token_logprobs"]]
    assert document["metadata"]["accumulated_token_ids"] == sent["input_ids"] + output
    assert document["metadata"]["tito_session_mismatch"] == []


async def test_second_prompt_starts_with_first_prompt_and_its_output(v1: Client) -> None:
    session = await v1.session()
    v1.engine.script = [Say("", calls=[("call_1", "get_weather", {"location": "Beijing"})]), Say("Sunny.")]
    first = await v1.said(session, [SYSTEM, USER], tools=[TOOL])
    result = {"role": "tool", "tool_call_id": "call_1", "content": '{"temperature": 22}'}
    second = await v1.said(session, [SYSTEM, USER, first, result], tools=[TOOL])
    await v1.said(session, [SYSTEM, USER, first, result, second, MORE], tools=[TOOL])
    document = await v1.view(session)
    records = document["records"]
    for earlier, later in itertools.pairwise(records):
        output = [e[1] for e in earlier["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
        whole = earlier["request"]["input_ids"] + output
        assert later["request"]["input_ids"][: len(whole)] == whole
    assert document["metadata"]["tito_session_mismatch"] == []


async def test_a_failed_generation_passes_the_engines_error_on_and_records_nothing(v1: Client) -> None:
    session = await v1.session()
    first = await v1.said(session, [SYSTEM, USER])
    before = await v1.snapshot(session)
    v1.engine.script = [Raw(b'{"message":"bad temperature"}', 400)]
    response = await v1.chat(session, [SYSTEM, USER, first, MORE])
    assert (response.status_code, response.json()) == (400, {"message": "bad temperature"})
    assert await v1.snapshot(session) == before


@pytest.mark.parametrize("core", ["v1", "v2"])
async def test_a_joint_that_loses_tokens_is_not_recorded(start, monkeypatch: pytest.MonkeyPatch, core: str) -> None:
    async with start(core_version=core) as client:
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        before = await client.snapshot(session)
        monkeypatch.setattr(Codec, "join", lambda codec, stored: stored.continued(pack(), dropped=2))
        response = await client.chat(session, [SYSTEM, USER, first, MORE])
        assert response.status_code == 500
        assert response.json()["error"].startswith(
            "pretokenized prefix mismatch: stored and new tokens differ at index "
        )
        assert await client.snapshot(session) == before
