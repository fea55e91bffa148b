"""The Anthropic dialect, inwards: what a request becomes, and what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest
from session_testing.engine import Say
from session_testing.messages import ASK, TOOL, send, sent
from session_testing.server import Client

pytestmark = pytest.mark.anyio

CALL = Say("", reasoning="Look it up.", calls=[("call_1", "get_weather", {"location": "Beijing"})])


async def test_a_tool_dialogue_keeps_its_tokens_and_its_openai_shaped_records(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [CALL, Say("Sunny.", reasoning="Read it.")]
    first = await send(
        v2, session, [ASK], system="Assist.", tools=[TOOL], tool_choice={"type": "tool", "name": "get_weather"}
    )
    assert first.json() == {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look it up.", "signature": ""},
            {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"location": "Beijing"}},
        ],
        "model": "scripted",
        "stop_reason": "tool_use",
        "usage": first.json()["usage"],
    }
    history = [
        ASK,
        {"role": "assistant", "content": first.json()["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "22 degrees"}]},
    ]
    second = await send(v2, session, history, system="Assist.", tools=[TOOL], tool_choice={"type": "none"})
    assert second.json()["stop_reason"] == "end_turn"
    assert [block["type"] for block in second.json()["content"]] == ["thinking", "text"]
    document = await v2.view(session)
    one, two = document["records"]
    assert one["path"] == "/v1/chat/completions"
    assert [m["role"] for m in two["request"]["messages"]] == ["system", "user", "assistant", "tool"]
    assert two["request"]["messages"][2] == {
        "role": "assistant",
        "reasoning_content": "Look it up.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"location": "Beijing"}'},
            }
        ],
    }
    output = [e[1] for e in one["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
    whole = one["request"]["input_ids"] + output
    assert two["request"]["input_ids"][: len(whole)] == whole
    assert [n["parent"] for n in document["metadata"]["tree"]["nodes"]] == [None, 0]
    assert document["metadata"]["tito_session_mismatch"] == []


async def test_sampling_fields_tools_and_choices_are_mapped(v2: Client) -> None:
    request = await sent(
        v2,
        [ASK],
        system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        stop_sequences=["END"],
        tools=[{"name": "get_weather", "input_schema": {"properties": {}}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        metadata={"user_id": "x"},
    )
    assert request["messages"][0] == {"role": "system", "content": "One.\nTwo."}
    assert (request["temperature"], request["top_p"], request["top_k"], request["stop"]) == (0.5, 0.9, 7, ["END"])
    assert (request["max_tokens"], request["model"]) == (64, "m")
    function = {
        "description": "",
        "name": "get_weather",
        "parameters": {"properties": {}, "type": "object"},
        "strict": True,
    }
    assert request["tools"] == [{"type": "function", "function": function}]
    assert list(request["tools"][0]["function"])[:2] == ["description", "name"]
    assert request["tool_choice"] == "required"
    assert request["parallel_tool_calls"] is False
    assert "metadata" not in request


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "get_weather"}, {"type": "function", "function": {"name": "get_weather"}}),
    ],
)
async def test_tool_choice(v2: Client, choice: dict[str, Any] | None, expected: Any) -> None:
    fields = {} if choice is None else {"tool_choice": choice}
    assert (await sent(v2, [ASK], tools=[TOOL], **fields))["tool_choice"] == expected


async def test_automatic_tool_choice_without_tools_is_no_choice(v2: Client) -> None:
    assert (await sent(v2, [ASK], tool_choice={"type": "auto"}))["tool_choice"] == "none"


async def test_empty_text_blocks_add_nothing_to_system_text_and_tool_results(v2: Client) -> None:
    def blocks(*texts: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": text} for text in texts]

    call = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": blocks("", "22")}
    history = [ASK, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    request = await sent(v2, history, system=blocks("One.", "", "Two."), tools=[TOOL])
    assert request["messages"][0]["content"] == "One.\nTwo."
    assert request["messages"][-1] == {"role": "tool", "tool_call_id": "a", "content": "22"}


async def test_a_tool_that_says_it_is_not_strict_stays_so(v2: Client) -> None:
    request = await sent(v2, [ASK], tools=[{**TOOL, "strict": False}])
    assert request["tools"][0]["function"]["strict"] is False


async def test_text_around_tool_results_keeps_its_order_term_llm_279(v2: Client) -> None:
    """term-llm#279: nothing moves across a tool result."""
    use = {"type": "tool_use", "id": "c", "name": "get_weather", "input": {}}
    content = [
        {"type": "text", "text": "before"},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "22"}]},
        {"type": "text", "text": "after"},
    ]
    request = await sent(
        v2, [ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": content}], tools=[TOOL]
    )
    assert request["messages"][2:] == [
        {"role": "user", "content": "before"},
        {"role": "tool", "tool_call_id": "c", "content": "22"},
        {"role": "user", "content": "after"},
    ]


async def test_several_blocks_of_a_tool_result_are_all_rendered(v2: Client) -> None:
    use = {"type": "tool_use", "id": "c", "name": "get_weather", "input": {}}
    blocks = [{"type": "text", "text": "22 degrees,"}, {"type": "text", "text": " sunny"}]
    request = await sent(
        v2,
        [
            ASK,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": blocks}]},
        ],
        tools=[TOOL],
    )
    assert request["messages"][2]["content"] == blocks
    assert "22 degrees, sunny" in v2.engine.vocabulary.decode(request["input_ids"])


async def test_a_system_message_in_the_middle_stays_in_place_where_the_template_shows_it_vllm_44000(v2: Client) -> None:
    """vllm#44000: /health says so, and the session goes on as one line."""
    assert (await v2.http.get("/health")).json()["anthropic_intermediate_system_supported"] is True
    session = await v2.session()
    first = await send(v2, session, [ASK], system="Assist.")
    history = [
        ASK,
        {"role": "assistant", "content": first.json()["content"]},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "And Shanghai?"}]},
    ]
    assert (await send(v2, session, history, system="Assist.")).status_code == 200
    assert [m["role"] for m in v2.engine.requests[-1]["messages"]] == ["system", "user", "assistant", "system", "user"]
    assert [n["parent"] for n in (await v2.view(session))["metadata"]["tree"]["nodes"]] == [None, 0]


async def test_a_system_message_is_folded_into_the_first_where_the_template_refuses_it(start) -> None:
    async with start(core_version="v2", tito_model="qwen35") as client:
        assert (await client.http.get("/health")).json()["anthropic_intermediate_system_supported"] is False
        request = await sent(client, [ASK, {"role": "system", "content": "Be brief."}, ASK], system="Assist.")
        assert request["messages"] == [{"role": "system", "content": "Assist.\nBe brief."}, ASK, ASK]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, "thinking is not supported by this endpoint"),
        ({"output_config": {"effort": "low"}}, "output_config is not supported by this endpoint"),
        ({"betas": ["x"]}, "betas is not enabled for this deployment"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "web_search_20250305 tools are not enabled for this deployment",
        ),
        ({"tools": [{"type": "other", "name": "x"}]}, "tools of type 'other' are not supported by this endpoint"),
        ({"tools": [{"name": "x"}]}, "tool 'x' has no input_schema"),
        ({"tool_choice": {"type": "any"}}, "tool_choice 'any' needs at least one tool"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}},
            "tool_choice names 'other', which is not one of the tools",
        ),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than 0"),
        ({"model": ""}, "model: String should have at least 1 character"),
        ({"messages": []}, "messages: List should have at least 1 item after validation, not 0"),
        ({"system": 5}, "system: Input should be a valid string"),
    ],
)
async def test_what_is_not_served_is_refused_in_the_anthropic_envelope(
    v2: Client, fields: dict[str, Any], message: str
) -> None:
    """sglang#22061, #20754: the thinking parameter among them: a 400 in this dialect's form, and no engine request."""
    session = await v2.session()
    response = await send(v2, session, fields.pop("messages", [ASK]), **fields)
    assert response.status_code == 400
    assert response.json() == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": message},
        "request_id": response.headers["x-request-id"],
    }
    assert v2.engine.requests == []


def user(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


def result(**fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "c", **fields}


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        (user({"type": "image", "source": {}}), "image content blocks are not enabled for this deployment"),
        (user({"type": "document", "source": {}}), "document content blocks are not enabled for this deployment"),
        (
            user({"type": "thinking", "thinking": "x"}),
            "thinking content blocks are only supported in assistant messages",
        ),
        (
            [ASK, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}],
            "redacted_thinking content blocks are not enabled for this deployment",
        ),
        (user(result(content="x", is_error=True)), "tool_result is_error=true is not supported by this endpoint"),
        (
            user(result(content=[{"type": "tool_reference", "tool_name": "x"}])),
            "tool_reference content blocks are not enabled for this deployment",
        ),
        (
            user(result(content=[{"type": "image", "source": {}}])),
            "image content blocks are not enabled for this deployment",
        ),
        (user({"type": "mystery"}), "messages[0].content[0]: unknown content block type 'mystery'"),
        (
            user(result(content=[{"type": "mystery"}])),
            "messages[0].content[0].content[0]: unknown content block type 'mystery'",
        ),
        (user({"type": ["text"]}), "messages[0].content[0]: unknown content block type ['text']"),
        (user({"type": "text"}), "messages[0].content[0].text: Field required"),
        (user({"type": "text", "text": 5}), "messages[0].content[0].text: Input should be a valid string"),
        ([{"role": "tool", "content": "x"}], "messages[0].role: Input should be 'user', 'assistant' or 'system'"),
        (
            [ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "x", "input": "y"}]}],
            "messages[1].content[0].input: Input should be a valid dictionary",
        ),
    ],
)
async def test_blocks_that_cannot_be_served_are_named_vllm_52489(
    v2: Client, messages: list[dict[str, Any]], message: str
) -> None:
    """vllm#52489: no 5xx from any block."""
    session = await v2.session()
    response = await send(v2, session, messages)
    assert (response.status_code, response.json()["error"]["message"]) == (400, message)


async def test_cache_control_that_moves_does_not_branch_sglang_36877(v2: Client) -> None:
    """sglang#36877: marks for a cache are no part of a message."""
    session = await v2.session()
    marked = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    first = await send(v2, session, [{"role": "user", "content": [marked]}])
    content = first.json()["content"]
    await send(
        v2,
        session,
        [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [*content[:-1], {**content[-1], "cache_control": {"type": "ephemeral"}}]},
            ASK,
        ],
    )
    assert [n["parent"] for n in (await v2.view(session))["metadata"]["tree"]["nodes"]] == [None, 0]


async def test_thinking_is_replayed_as_reasoning_sglang_22061_litellm_26916(v2: Client) -> None:
    """litellm#26916, sglang#22061: equal reasoning, so the stored turn is recognised."""
    session = await v2.session()
    first = await send(v2, session, [ASK])
    await send(v2, session, [ASK, {"role": "assistant", "content": first.json()["content"]}, ASK])
    assert v2.engine.requests[1]["messages"][1]["reasoning_content"] == "I look outside."
    assert [n["parent"] for n in (await v2.view(session))["metadata"]["tree"]["nodes"]] == [None, 0]


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": ""}
IMAGE = {"type": "image", "source": {}}
IN_ORDER: list[tuple[dict[str, Any], str]] = [
    ({"thinking": {"type": "enabled"}}, "thinking is not supported by this endpoint"),
    ({"output_config": {"effort": "low"}}, "output_config is not supported by this endpoint"),
    ({"betas": ["x"]}, "betas is not enabled for this deployment"),
    *(
        ({"tools": [{"type": f"{kind}_20250124", "name": "x"}]}, f"{kind}_20250124 tools are not enabled")
        for kind in ("web_search", "computer", "bash", "text_editor")
    ),
    ({"system": [THINKING]}, "thinking content blocks are only supported in assistant messages"),
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, "image content blocks are not enabled"),
]
"""What is refused, first things first."""


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
async def test_of_several_things_that_are_not_served_the_first_is_named(v2: Client, first: int) -> None:
    fields: dict[str, Any] = {}
    for later, _ in reversed(IN_ORDER[first:]):
        fields |= later
    session = await v2.session()
    response = await send(v2, session, **{"messages": [ASK], **fields})
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(IN_ORDER[first][1])
    assert v2.engine.requests == []


@pytest.mark.parametrize("kind", ["search_result", "tool_reference", "redacted_thinking", "document"])
async def test_a_kind_of_block_that_is_never_served_is_named(v2: Client, kind: str) -> None:
    response = await send(v2, await v2.session(), [{"role": "user", "content": [{"type": kind}]}])
    assert (response.status_code, v2.engine.requests) == (400, [])
    assert response.json()["error"]["message"] == f"{kind} content blocks are not enabled for this deployment"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ([1], "messages[0].content[0]"),
        ([{"type": "text"}], "messages[0].content[0].text"),
        ([{"type": "tool_use", "id": "c", "name": "f"}], "messages[0].content[0].input"),
        ([{"type": "tool_result", "tool_use_id": "c", "content": [1]}], "messages[0].content[0].content[0]"),
    ],
)
async def test_a_fault_is_told_with_its_place_in_the_request(v2: Client, content: list[Any], where: str) -> None:
    response = await send(v2, await v2.session(), [{"role": "user", "content": content}])
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(f"{where}: ")
