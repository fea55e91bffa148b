"""The official SDKs as clients: whole tool dialogues, streaming and not, through both session servers.

Temperature 0, because here the wire is under test and not the model. Retries of the SDKs are off: a hidden retry would
be a second generation in the same session.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic.types import MessageParam, ToolParam
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from runner.agents import script
from tests.e2e.conftest import Stack

QUESTIONS = (script.USER_FIRST, *script.USER_FOLLOWUPS[:2])
CITIES = ("Beijing", "Shanghai", "Tokyo")


@pytest.fixture(params=["v1", "v2"])
def server(request: pytest.FixtureRequest, stack: Stack) -> str:
    """Base URL of one session server."""
    return {"v1": stack.session_v1, "v2": stack.session_v2}[request.param]


@pytest.fixture
def session(server: str) -> Iterator[str]:
    """URL of a fresh session; deleted afterwards."""
    url = f"{server}/sessions/{httpx.post(f'{server}/sessions').raise_for_status().json()['session_id']}"
    yield url
    assert httpx.delete(url).status_code == 204


@pytest.fixture
def closing_after() -> Iterator[ExitStack]:
    """Closes what a test entered into it: an SDK client left open leaves its socket to the collector."""
    with ExitStack() as stack:
        yield stack


def _records(session: str) -> dict[str, Any]:
    body: dict[str, Any] = httpx.get(session).raise_for_status().json()
    return body


def _prefixes_hold(body: dict[str, Any], turns: int) -> None:
    """Every prompt begins with the prompt before it and the ids sampled after that; the server counts the same ids."""
    records = body["records"]
    assert len(records) == turns
    ids: list[int] = []
    for record in records:
        prompt = record["request"]["input_ids"]
        assert prompt[: len(ids)] == ids
        sampled = [entry[1] for entry in record["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
        assert len(sampled) == record["response"]["usage"]["completion_tokens"]
        ids = [*prompt, *sampled]
    assert body["metadata"]["accumulated_token_ids"] == ids


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_openai_sdk_holds_a_tool_dialogue(
    session: str, stack: Stack, stream: bool, closing_after: ExitStack
) -> None:
    client = closing_after.enter_context(openai.OpenAI(base_url=f"{session}/v1", api_key="unused", max_retries=0))
    tools: list[ChatCompletionToolParam] = [script.TOOL]  # type: ignore[list-item]
    messages: list[ChatCompletionMessageParam] = [{"role": "system", "content": script.SYSTEM}]

    def turn() -> Any:
        if not stream:
            reply = client.chat.completions.create(
                model=stack.family, messages=messages, tools=tools, temperature=0, max_tokens=200
            )
            return reply.choices[0].finish_reason, reply.choices[0].message.model_dump(exclude_none=True)
        with client.chat.completions.stream(
            model=stack.family, messages=messages, tools=tools, temperature=0, max_tokens=200
        ) as events:
            for _ in events:
                pass
            choice = events.get_final_completion().choices[0]
        message = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in message.get("tool_calls", []):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        return choice.finish_reason, message

    for question, city, result in zip(QUESTIONS, CITIES, script.TOOL_RESULTS, strict=False):
        messages.append({"role": "user", "content": question})
        reason, message = turn()
        assert reason == "tool_calls"
        (call,) = message["tool_calls"]
        assert call["function"]["name"] == script.TOOL_NAME
        assert city in call["function"]["arguments"]
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": result}]
        reason, message = turn()
        assert reason == "stop"
        assert city in message["content"]
        messages.append(message)
    _prefixes_hold(_records(session), 6)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_anthropic_sdk_holds_a_tool_dialogue(
    session: str, stack: Stack, stream: bool, closing_after: ExitStack
) -> None:
    client = closing_after.enter_context(anthropic.Anthropic(base_url=session, api_key="unused", max_retries=0))
    tool: ToolParam = {
        "name": script.TOOL_NAME,
        "description": script.TOOL_DESCRIPTION,
        "input_schema": script.TOOL_PARAMETERS,  # type: ignore[typeddict-item]
    }
    messages: list[MessageParam] = []

    def turn(choice: Any) -> anthropic.types.Message:
        request: dict[str, Any] = {
            "model": stack.family,
            "max_tokens": 200,
            "system": script.SYSTEM,
            "messages": messages,
            "tools": [tool],
            "tool_choice": choice,
            "extra_body": {"temperature": 0},
        }
        if not stream:
            reply: anthropic.types.Message = client.messages.create(**request)
            return reply
        with client.messages.stream(**request) as events:
            for _ in events:
                pass
            return events.get_final_message()

    for question, city, result in zip(QUESTIONS, CITIES, script.TOOL_RESULTS, strict=False):
        messages.append({"role": "user", "content": question})
        reply = turn({"type": "tool", "name": script.TOOL_NAME})
        assert reply.stop_reason == "tool_use"
        (use,) = [block for block in reply.content if block.type == "tool_use"]
        assert use.input == {"location": city}
        messages.append({"role": "assistant", "content": reply.content})
        messages.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": result}]}
        )
        reply = turn({"type": "none"})
        assert reply.stop_reason == "end_turn"
        text = "".join(block.text for block in reply.content if block.type == "text")
        assert city in text
        messages.append({"role": "assistant", "content": reply.content})
    _prefixes_hold(_records(session), 6)
