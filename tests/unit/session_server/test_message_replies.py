"""The Anthropic dialect, outwards: streams, stop reasons, usage, errors, and the counting of tokens."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from session_testing.engine import Raw, Say
from session_testing.messages import ASK, TOOL, send
from session_testing.server import Client

pytestmark = pytest.mark.anyio


def read_events(text: str) -> list[dict[str, Any]]:
    events = []
    for chunk in text.removesuffix("\n\n").split("\n\n"):
        name, data = chunk.split("\n")
        event = orjson.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


async def test_a_stream_opens_fills_and_closes_each_block_in_order(v2: Client) -> None:
    """sglang#25876: every delta belongs to the block that is open."""
    session = await v2.session()
    v2.engine.script = [
        Say(
            "I call.",
            calls=[("c1", "get_weather", '{"location":  "Zürich"}'), ("c2", "get_weather", {})],
        )
    ]
    response = await send(v2, session, [ASK], tools=[TOOL], stream=True)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
    events = read_events(response.text)
    assert [(e["type"], e.get("index")) for e in events] == [
        ("message_start", None),
        *[(f"content_block_{step}", index) for index in range(4) for step in ("start", "delta", "stop")],
        ("message_delta", None),
        ("message_stop", None),
    ]
    assert events[0]["message"]["model"] == "m"
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["usage"]["output_tokens"] == 0
    assert events[2]["delta"] == {"type": "thinking_delta", "thinking": "I look outside."}
    assert events[5]["delta"] == {"type": "text_delta", "text": "I call."}
    assert events[7]["content_block"] == {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {}}
    assert events[8]["delta"] == {"type": "input_json_delta", "partial_json": '{"location":  "Zürich"}'}
    assert events[-2]["delta"] == {"stop_reason": "tool_use"}
    assert events[-2]["usage"]["output_tokens"] > 0
    assert len((await v2.view(session))["records"]) == 1


async def test_an_empty_answer_is_one_empty_text_block(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say("", reasoning=None), Say("", reasoning=None)]
    response = await send(v2, session, [ASK])
    assert response.json()["content"] == [{"type": "text", "text": ""}]
    events = read_events((await send(v2, session, [ASK], stream=True)).text)
    assert [e["type"] for e in events[1:3]] == ["content_block_start", "content_block_stop"]


@pytest.mark.parametrize(
    ("say", "reason"),
    [
        (Say(finish="length"), {"stop_reason": "max_tokens"}),
        (Say(finish="stop"), {"stop_reason": "end_turn"}),
        (Say(finish=None), {"stop_reason": "end_turn"}),
    ],
)
async def test_stop_reasons(v2: Client, say: Say, reason: dict[str, str]) -> None:
    session = await v2.session()
    v2.engine.script = [say]
    document = (await send(v2, session, [ASK])).json()
    assert {key: value for key, value in document.items() if key.startswith("stop_")} == reason


async def test_a_matched_stop_sequence_is_said(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say(finish="stop", choice={"matched_stop": "END"})]
    document = (await send(v2, session, [ASK], stop_sequences=["END"])).json()
    assert (document["stop_reason"], document["stop_sequence"]) == ("stop_sequence", "END")


async def test_a_stop_string_inside_the_thinking_is_told_as_that_sglang_40529(v2: Client) -> None:
    """sglang#40529, #32727: the right reason, and no answer where there is none."""
    session = await v2.session()
    v2.engine.script = [Say(content="", finish="stop", choice={"matched_stop": "END"})]
    document = (await send(v2, session, [ASK], stop_sequences=["END"])).json()
    assert (document["stop_reason"], document["stop_sequence"]) == ("stop_sequence", "END")
    assert not any(block["type"] == "text" and block["text"] for block in document["content"])


async def test_cached_tokens_are_taken_out_of_the_input(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [
        Say(
            body={"usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}}
        )
    ]
    document = (await send(v2, session, [ASK])).json()
    assert document["usage"] == {"input_tokens": 6, "output_tokens": 3, "cache_read_input_tokens": 4}


async def test_an_aborted_generation_is_a_retryable_error_and_not_recorded_miles_2261(v2: Client) -> None:
    """miles#2261: never end_turn."""
    session = await v2.session()
    before = await v2.snapshot(session)
    v2.engine.script = [Say(finish="abort")]
    response = await send(v2, session, [ASK])
    assert response.status_code == 503
    assert response.json()["error"] == {"type": "overloaded_error", "message": "Internal server error"}
    assert await v2.snapshot(session) == before


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, b'{"object":"error","message":"bad","type":"BadRequestError","code":400}', ("BadRequestError", "bad")),
        (400, b'{"error":{"message":"bad"}}', ("invalid_request_error", "bad")),
        (404, b"not json", ("not_found_error", "not json")),
        (429, b'{"error":"slow down"}', ("rate_limit_error", "slow down")),
        (400, b"{}", ("invalid_request_error", "Request failed")),
        (500, b'{"error":{"type":"x","message":"secret path"}}', ("api_error", "Internal server error")),
        (503, b"secret", ("overloaded_error", "Internal server error")),
        (502, b"[]", ("api_error", "Internal server error")),
    ],
)
async def test_engine_errors_keep_their_words_below_500_only(
    v2: Client, status: int, body: bytes, error: tuple[str, str]
) -> None:
    session = await v2.session()
    v2.engine.script = [Raw(body, status, {"retry-after": "7", "x-secret": "s", "x-ratelimit-limit": "1"})]
    response = await send(v2, session, [ASK])
    assert response.status_code == status
    assert response.json()["error"] == {"type": error[0], "message": error[1]}
    assert (response.headers["retry-after"], response.headers["x-ratelimit-limit"]) == ("7", "1")
    assert "x-secret" not in response.headers


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (408, "request_timeout_error"),
        (409, "invalid_request_error"),
        (413, "request_too_large"),
        (418, "api_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
        (504, "api_error"),
        (529, "api_error"),
    ],
)
async def test_an_engine_error_has_the_type_of_its_status_and_at_most_500_characters(
    v2: Client, status: int, kind: str
) -> None:
    body = orjson.dumps({"error": {"message": "m" * 600}})
    v2.engine.script = [Raw(body, status, {"www-authenticate": "Bearer", "anthropic-ratelimit-requests-limit": "1"})]
    response = await send(v2, await v2.session(), [ASK])
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (status, kind)
    assert error["message"] == ("Internal server error" if status >= 500 else "m" * 500)
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["anthropic-ratelimit-requests-limit"] == "1"


async def test_a_conflict_keeps_its_message(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say("Cut", finish="length")]
    first = await send(v2, session, [ASK])
    response = await send(v2, session, [ASK, {"role": "assistant", "content": first.json()["content"]}, ASK])
    assert response.status_code == 409
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"].startswith("truncated generation cannot be extended")


async def test_a_reply_that_cannot_be_recorded_is_generic_outside(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say(without_meta=("completion_tokens",))]
    response = await send(v2, session, [ASK])
    assert (response.status_code, response.json()["error"]["message"]) == (502, "Internal server error")
    assert (await v2.view(session))["records"] == []


async def test_unknown_sessions_and_bad_json_come_in_the_envelope(v2: Client) -> None:
    response = await send(v2, "/sessions/nope", [ASK])
    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")
    session = await v2.session()
    response = await v2.http.post(f"{session}/v1/messages", content=b"{")
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_counting_tokens_gives_the_exact_prompt_length_and_changes_nothing_litellm_30043(v2: Client) -> None:
    """litellm#30043: the number that will be sent, not an estimate."""
    session = await v2.session()
    first = await send(v2, session, [ASK], tools=[TOOL])
    history = [ASK, {"role": "assistant", "content": first.json()["content"]}, ASK]
    before = await v2.snapshot(session)
    body = {"model": "m", "messages": history, "tools": [TOOL]}
    counted = await v2.http.post(f"{session}/v1/messages/count_tokens", json=body)
    assert await v2.snapshot(session) == before
    await send(v2, session, history, tools=[TOOL])
    assert counted.json() == {"input_tokens": len(v2.engine.requests[-1]["input_ids"])}
