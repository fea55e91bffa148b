"""The OpenAI route on the wire: bodies, streams, headers, and what the engine may not say."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from session_testing.engine import Raw, Say
from session_testing.server import MORE, SYSTEM, TOOL, USER, Client

pytestmark = pytest.mark.anyio


async def test_a_stream_is_one_chunk_and_the_end_mark(v1: Client) -> None:
    session = await v1.session()
    calls = [("c1", "get_weather", {"location": "Beijing"}), ("c2", "get_weather", {})]
    v1.engine.script = [Say("I call.", calls=calls)]
    response = await v1.chat(session, [SYSTEM, USER], tools=[TOOL], stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
    first, last, rest = response.text.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    chunk = orjson.loads(first.removeprefix("data: "))
    [record] = (await v1.view(session))["records"]
    reply = record["response"]
    message = reply["choices"][0]["message"]
    assert chunk == {
        "id": reply["id"],
        "object": "chat.completion.chunk",
        "created": reply["created"],
        "model": reply["model"],
        "choices": [
            {
                "index": 0,
                "delta": {
                    "role": "assistant",
                    "content": "I call.",
                    "reasoning_content": "I look outside.",
                    "tool_calls": message["tool_calls"],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": reply["usage"],
    }
    assert [call["index"] for call in chunk["choices"][0]["delta"]["tool_calls"]] == [0, 1]
    assert "stream" not in record["request"] and "stream_options" not in record["request"]


async def test_a_refusal_of_a_stream_is_plain_json(v1: Client) -> None:
    session = await v1.session()
    response = await v1.chat(session, [], stream=True)
    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")


async def test_forced_fields_win_over_the_clients(v1: Client) -> None:
    session = await v1.session()
    await v1.said(session, [USER], logprobs=False, return_meta_info=False, no_stop_trim=True, input_ids=[1, 2])
    sent = v1.engine.requests[0]
    assert (sent["logprobs"], sent["return_meta_info"], sent["no_stop_trim"]) == (True, True, False)
    assert len(sent["input_ids"]) > 2


async def test_tools_reach_the_engine_strict_and_the_prompt_as_they_were_sent(v1: Client) -> None:
    session = await v1.session()
    loose = {"type": "function", "function": {"name": "other", "strict": False, "x-note": 1}}
    await v1.said(session, [USER], tools=[TOOL, loose])
    sent = v1.engine.requests[0]
    assert sent["tools"][0]["function"] == {**TOOL["function"], "strict": True}
    assert sent["tools"][1] == loose
    text = v1.engine.vocabulary.decode(sent["input_ids"])
    assert f"\n{orjson.loads(orjson.dumps(TOOL))}\n".replace("'", '"') in text
    assert '{"type": "function", "function": {"name": "other", "strict": false, "x-note": 1}}' in text
    assert "defer_loading" not in text


async def test_strict_tools_can_be_switched_off(start) -> None:
    async with start(core_version="v1", strict_tools=False) as client:
        await client.said(await client.session(), [USER], tools=[TOOL])
        assert client.engine.requests[0]["tools"] == [TOOL]


async def test_template_arguments_are_merged_used_and_written_back(start) -> None:
    async with start(core_version="v1", chat_template_kwargs={"enable_thinking": False, "a": 1}) as client:
        await client.said(await client.session(), [USER], chat_template_kwargs={"a": 2})
        sent = client.engine.requests[0]
        assert sent["chat_template_kwargs"] == {"enable_thinking": False, "a": 2, "clear_thinking": False}
        assert client.engine.vocabulary.decode(sent["input_ids"]).endswith("<think>\n\n</think>\n\n")


async def test_text_parts_are_joined_for_the_prompt_and_kept_in_the_record(v1: Client) -> None:
    session = await v1.session()
    parts = {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}
    first = await v1.said(session, [parts])
    assert "user\nHello<|im_end|>" in v1.engine.vocabulary.decode(v1.engine.requests[0]["input_ids"])
    assert (await v1.view(session))["records"][0]["request"]["messages"] == [parts]
    await v1.said(session, [{"role": "user", "content": "Hello"}, first, MORE])
    assert len((await v1.view(session))["records"]) == 2


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "invalid JSON body: "),
        (b"{", "invalid JSON body: "),
        (b"[1]", "the body must be a JSON object, got an array"),
        (b"null", "the body must be a JSON object, got null"),
        (b"{}", "messages: Field required"),
        (b'{"messages":[]}', "messages: List should have at least 1 item"),
        (b'{"messages":"x"}', "messages: Input should be a valid list"),
        (b'{"messages":[1]}', "messages[0]: Input should be a valid dictionary"),
        (b'{"messages":[{"role":"x"}]}', "messages[0].role: Input should be 'system', 'user', 'assistant' or 'tool'"),
        (b'{"messages":[{"role":"user","content":5}]}', "messages[0].content: Input should be a valid string"),
        (
            b'{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]}',
            "messages[0].content: part 1 is of type 'image_url'; only parts of type 'text'",
        ),
        (b'{"messages":[{"role":"user","content":["a"]}]}', "messages[0].content: part 0 is of type 'str'"),
        (
            b'{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}]}',
            "messages[0].tool_calls[0].function.arguments: JSON of type list, expected an object",
        ),
        (
            b'{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\\"a\\":NaN}"}}]}]}',
            "messages[0].tool_calls[0].function.arguments: not valid JSON: NaN is not JSON",
        ),
        (b'{"messages":[{"role":"user","content":"x"}],"n":2}', "n: Input should be 1"),
        (b'{"messages":[{"role":"user","content":"x"}],"tools":{}}', "tools: Input should be a valid list"),
        (
            b'{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"web_search"}]}',
            "tools[0].type: Input should be 'function'; tools[0].function: Field required",
        ),
        (
            b'{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[]}',
            "chat_template_kwargs must be an object",
        ),
        (b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}', "invalid JSON body: "),
        (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "invalid JSON body: "),
        (b"\xff\xfe", "invalid JSON body: "),
        (b"[" * 100_000, "invalid JSON body: "),
    ],
)
async def test_a_malformed_request_is_refused_by_name_and_changes_nothing(v1: Client, body: bytes, error: str) -> None:
    session = await v1.session()
    before = await v1.snapshot(session)
    response = await v1.http.post(f"{session}/v1/chat/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(error)
    assert v1.engine.requests == []
    assert await v1.snapshot(session) == before


async def test_deeply_nested_template_input_is_refused_not_crashed(v1: Client) -> None:
    nested: Any = {}
    for _ in range(900):
        nested = {"a": nested}
    tool = {"type": "function", "function": {"name": "f", "parameters": nested}}
    response = await v1.chat(await v1.session(), [USER], tools=[tool])
    assert response.status_code in (200, 400)


async def test_what_the_template_refuses_is_the_clients_fault(start) -> None:
    async with start(core_version="v2", tito_model="qwen35") as client:
        session = await client.session()
        response = await client.chat(session, [USER, SYSTEM])
        assert response.status_code == 400
        assert (
            response.json()["error"] == "chat template refused the messages: System message must be at the beginning."
        )


async def test_a_token_that_the_model_has_no_row_for_never_reaches_the_engine(start, tmp_path) -> None:
    from session_server.tito.vocabulary import Vocabulary
    from session_testing.tokenizers import QWEN_PLAIN, QWEN_SPECIALS, byte_level, save

    tokenizer = byte_level(QWEN_SPECIALS, (*QWEN_PLAIN, "<extra>"))
    path = save(tokenizer, tmp_path, eos="<|im_end|>", rows=tokenizer.token_to_id("<extra>"))
    async with start(vocabulary=Vocabulary.load(path, trust_remote_code=False), core_version="v1") as client:
        session = await client.session()
        response = await client.chat(session, [{"role": "user", "content": "an <extra> token"}])
        assert response.status_code == 400
        assert response.json()["error"].startswith("the messages contain the token '<extra>'")
        first = await client.said(session, [USER])
        tail = {"role": "user", "content": "<extra>"}
        assert (await client.chat(session, [USER, first, tail])).status_code == 400
        assert len(client.engine.requests) == 1


@pytest.mark.parametrize(
    ("say", "error"),
    [
        (Raw(b"not json"), "upstream answered 200 with a body that is not JSON"),
        (Raw(b"[]"), "the body is not a JSON object"),
        (Raw(b'{"choices":[]}'), "choices[0] is missing"),
        (Say(choice={"meta_info": None}), "choices[0].meta_info is missing"),
        (Say(without_meta=("output_token_logprobs",)), "output_token_logprobs is missing"),
        (Say(without_meta=("completion_tokens",)), "completion_tokens is missing"),
        (Say(meta={"completion_tokens": 1}), "completion_tokens is 1 but output_token_logprobs has"),
        (Say(meta={"prompt_tokens": 1}), "the engine counted 1 prompt tokens where"),
        (Say(meta={"output_token_logprobs": [[-0.5]], "completion_tokens": 1}), "is not a list of [logprob, token id"),
        *(
            (
                Say(meta={"output_token_logprobs": [entry], "completion_tokens": 1}),
                "is not a list of [logprob, token id",
            )
            for entry in ([None, 5, None], ["-0.5", 5, None], [True, 5, None], [-0.5, True, None], [-0.5, 5.0, None], 5)
        ),
        (
            Say(meta={"output_token_logprobs": [[-0.5, 10**6, None]], "completion_tokens": 1}),
            "is outside the vocabulary",
        ),
        (Say(meta={"output_token_logprobs": [[-0.5, -1, None]], "completion_tokens": 1}), "negative token id"),
        (Say(choice={"message": None}), "choices[0].message is missing"),
        (Say(message={"role": "user"}), "role is not 'assistant'"),
        (Say(message={"content": None}), "content is not a string"),
        (Say(message={"reasoning_content": 5}), "reasoning_content is not a string"),
        (Say(message={"tool_calls": {}}), "tool_calls is not a list"),
        (Say(message={"tool_calls": [{}]}), "tool_calls[0] is not a function call"),
        (Say(calls=[("c", "get_weather", "[1]")]), "function.arguments is JSON of type list, expected an object"),
        (Say(calls=[("c", "get_weather", '"x"')]), "function.arguments is JSON of type str, expected an object"),
        (Say(calls=[("c", "get_weather", "{")]), "function.arguments is not valid JSON"),
        (Say(calls=[("c", "get_weather", '{"a": NaN}')]), "NaN is not JSON"),
        (Say(choice={"finish_reason": 5}), "finish_reason is not a string"),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_a_reply_that_cannot_be_recorded_is_a_502_and_not_recorded_miles_2262(
    start, version: str, say, error: str
) -> None:
    """miles#2262 among them: arguments are strict JSON objects or the turn did not happen."""
    async with start(core_version=version) as client:
        session = await client.session()
        before = await client.snapshot(session)
        client.engine.script = [say]
        response = await client.chat(session, [SYSTEM, USER])
        assert response.status_code == 502, response.text
        assert error in response.json()["error"]
        assert await client.snapshot(session) == before


async def test_the_engines_error_is_passed_on_with_its_headers_each_once_miles_1828(v1: Client) -> None:
    """miles#1828: no header twice."""
    session = await v1.session()
    v1.engine.script = [Raw(b'{"message":"slow"}', 429, {"retry-after": "3", "server": "engine", "date": "x"})]
    response = await v1.chat(session, [USER])
    assert (response.status_code, response.json()) == (429, {"message": "slow"})
    assert response.headers["retry-after"] == "3"
    names = [name for name, _ in response.headers.multi_items()]
    assert len(names) == len(set(names))
    assert "engine" not in response.headers.get("server", "")


async def test_credentials_stay_here_unless_switched_on(start) -> None:
    secret = {"authorization": "Bearer s3cret", "x-api-key": "s3cret", "cookie": "a=s3cret", "x-tag": "kept"}
    async with start(core_version="v1") as client:
        session = await client.session()
        body = {"messages": [USER]}
        await client.http.post(f"{session}/v1/chat/completions", json=body, headers=secret)
        headers = client.engine.headers[0]
        assert "s3cret" not in str(headers)
        assert headers["x-tag"] == "kept"
        assert headers["x-smg-routing-key"] == session.removeprefix("/sessions/")
    async with start(core_version="v1", forward_credentials=True) as client:
        await client.http.post(f"{await client.session()}/v1/chat/completions", json=body, headers=secret)
        assert client.engine.headers[0]["authorization"] == "Bearer s3cret"
    async with start(core_version="v1", engine_api_key="own") as client:
        await client.http.post(f"{await client.session()}/v1/chat/completions", json=body, headers=secret)
        assert client.engine.headers[0]["authorization"] == "Bearer own"


async def test_engine_options_are_asked_for(start) -> None:
    async with start(
        core_version="v1", routed_experts=True, routed_experts_from_checkpoint=True, indexer_topk=True, lora_path="l"
    ) as client:
        session = await client.session()
        first = await client.said(session, [USER])
        await client.said(session, [USER, first, MORE])
        one, two = client.engine.requests
        assert (one["return_routed_experts"], one["return_indexer_topk"], one["lora_path"]) == (True, True, "l")
        known = len((await client.view(session))["records"][0]["request"]["input_ids"]) + len(
            (await client.view(session))["records"][0]["response"]["choices"][0]["meta_info"]["output_token_logprobs"]
        )
        assert (one["routed_experts_start_len"], two["routed_experts_start_len"]) == (0, known - 1)
