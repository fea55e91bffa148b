"""The Anthropic agent against the session server over the scripted engine."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from runner.agents import script
from runner.agents.anthropic import Cause, rejects_call, rejects_text
from runner.agents.records import Health, Reply
from runner.agents.session import ServiceError, SessionClient
from runner.base.errors import ConfigurationError, ModelIncompleteError, VerificationError
from runner.base.events import RetryEvent, TurnDone
from runner.base.terms import Role
from runner.plan.model import SystemExpectation
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import bench

ROUND = ["anthropic_tool_use", "anthropic_tool_result_string", "anthropic_text"]
EVENTS = [
    *ROUND,
    "anthropic_tool_use", "anthropic_tool_result_list", "anthropic_text",
    "anthropic_system",
    *ROUND,
]  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
def test_six_turns_are_driven_in_both_wire_modes(stream: bool) -> None:
    with bench("v2") as b:
        transcript, view = asyncio.run(b.drive_anthropic(stream=stream))
    assert transcript.driver_events == EVENTS
    assert [turn.action for turn in transcript.turns] == ["forced_tool", "text"] * 3
    assert [turn.parent for turn in transcript.turns] == [None, 1, 2, 3, 4, 5]
    assert [turn.finish_reason for turn in transcript.turns] == ["tool_use", "end_turn"] * 3
    assert [record.response.id for record in view.records] == [turn.response_id for turn in transcript.turns]
    assert [event.action for event in b.events if isinstance(event, TurnDone)] == ["forced_tool", "text"] * 3
    assert [turn.prompt_tokens for turn in transcript.turns] == [len(record.input_ids) for record in view.records]


def test_prompts_and_results_come_in_the_forms_of_their_round() -> None:
    with bench("v2") as b:
        transcript, _ = asyncio.run(b.drive_anthropic())
    said = [m for m in transcript.turns[-1].messages if m["role"] != "assistant"]
    assert said[0] == {"role": "system", "content": script.SYSTEM}
    assert [m["content"] for m in said if isinstance(m["content"], str)] == [
        script.SYSTEM,
        "What's the weather in Beijing?",
        "Now check the weather in Shanghai.",
        script.SYSTEM_REMINDER,
    ]
    assert {"role": "user", "content": [{"type": "text", "text": "Now check the weather in Tokyo."}]} in said
    results = [
        block["content"]  # type: ignore[index, call-overload]
        for m in said
        if isinstance(m["content"], list)
        for block in m["content"]
        if block["type"] == "tool_result"  # type: ignore[index, call-overload]
    ]
    assert results == [
        script.TOOL_RESULTS[0],
        [{"type": "text", "text": script.TOOL_RESULTS[1]}],
        "service temporarily unavailable",
    ]
    assert said[-2]["content"] == [{"type": "text", "text": "Now check the weather in Tokyo."}]


def test_what_the_server_returned_is_sent_back_unchanged_thinking_included() -> None:
    with bench("v2") as b:
        transcript, _ = asyncio.run(b.drive_anthropic())
    replayed = [m for m in transcript.turns[-1].messages if m["role"] == "assistant"]
    assert replayed == [turn.reply for turn in transcript.turns[:-1]]
    assert all(message["content"][0]["type"] == "thinking" for message in replayed)  # type: ignore[index, call-overload]


def test_calls_are_forced_and_texts_are_not_allowed_to_call() -> None:
    with bench("v2") as b:
        asyncio.run(b.drive_anthropic())
    forced = {"type": "function", "function": {"name": "get_weather"}}
    assert [request["tool_choice"] for request in b.engine.requests] == [forced, "none"] * 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("kind", "turn", "cause"),
    [
        (Kind.TRUNCATE, 1, "max_tokens"),
        (Kind.NO_CALL, 3, "no_forced_call"),
        (Kind.EMPTY, 2, "empty"),
        (Kind.EMPTY, 5, "no_forced_call"),
    ],
)
def test_an_unacceptable_reply_is_asked_for_again_from_the_same_parent(
    kind: Kind, turn: int, cause: str, stream: bool
) -> None:
    with bench("v2", faults=[Fault(kind, turn=turn)]) as b:
        transcript, view = asyncio.run(b.drive_anthropic(stream=stream))
    assert [(a.turn, a.attempt, a.cause, a.seed) for a in b.attempts] == [(turn, 1, cause, None)]
    assert transcript.retries == {cause: 1}
    assert b.engine.requests[turn - 1]["messages"] == b.engine.requests[turn]["messages"]
    (rejected,) = transcript.turns[turn - 1].rejected
    assert view.metadata.tree is not None
    nodes = {node.response_id: node for node in view.metadata.tree.nodes}
    assert len(nodes) == 7
    assert nodes[rejected.response_id].parent == nodes[transcript.turns[turn - 1].response_id].parent
    assert rejected.reply not in transcript.turns[-1].messages
    assert [event.attempt for event in b.events if isinstance(event, RetryEvent)] == [1]


@pytest.mark.parametrize(
    ("kind", "error", "cause"),
    [(Kind.TRUNCATE, ModelIncompleteError, "max_tokens"), (Kind.NO_CALL, VerificationError, "no_forced_call")],
)
def test_eight_repeats_are_the_most(kind: Kind, error: type[VerificationError], cause: str) -> None:
    with bench("v2", faults=[Fault(kind, times=None)]) as b, pytest.raises(error) as caught:
        asyncio.run(b.drive_anthropic())
    assert type(caught.value) is error
    assert caught.value.message == f"turn 1: exhausted 8 retries after {cause}"
    assert len(b.engine.requests) == 9
    assert [attempt.attempt for attempt in b.attempts] == list(range(1, 9))


HEALTH = {"status": "ok", "anthropic_intermediate_system_supported": True}
NO_SYSTEM = (Role.TOOL, Role.USER, Role.ASSISTANT)
REQUIRED, FORBIDDEN = SystemExpectation.REQUIRED, SystemExpectation.FORBIDDEN


def driven_with(health: dict[str, Any], roles: tuple[Role, ...], expected: SystemExpectation | None) -> list[str]:
    """The driver events; nothing may have been asked of the engine when it raises."""
    with bench("v2") as b:

        async def run() -> list[str]:
            agent, transcript = b.anthropic(Health.model_validate(health), roles=roles, expected=expected)
            transcript.session_id = await b.client.create()
            await agent.drive()
            return transcript.driver_events

        try:
            return asyncio.run(run())
        except Exception:
            assert b.engine.requests == []
            raise


def test_a_system_message_in_the_middle_needs_the_route_and_the_family() -> None:
    assert driven_with(HEALTH, tuple(Role), REQUIRED).count("anthropic_system") == 1
    assert "anthropic_system" not in driven_with(HEALTH, NO_SYSTEM, FORBIDDEN)
    unsupported = {**HEALTH, "anthropic_intermediate_system_supported": False}
    assert "anthropic_system" not in driven_with(unsupported, tuple(Role), FORBIDDEN)


@pytest.mark.parametrize(
    ("health", "roles", "expected"),
    [
        (HEALTH, tuple(Role), FORBIDDEN),
        (HEALTH, NO_SYSTEM, REQUIRED),
        ({**HEALTH, "anthropic_intermediate_system_supported": False}, tuple(Role), REQUIRED),
        ({"status": "ok"}, tuple(Role), REQUIRED),
        ({"status": "ok"}, NO_SYSTEM, FORBIDDEN),
    ],
)
def test_another_capability_than_expected_fails_before_any_request(
    health: dict[str, Any], roles: tuple[Role, ...], expected: SystemExpectation
) -> None:
    with pytest.raises(VerificationError) as caught:
        driven_with(health, roles, expected)
    assert caught.value.stage == "capability"


def test_a_family_without_an_expectation_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="no expectation"):
        driven_with(HEALTH, tuple(Role), None)


def test_an_engine_error_is_a_failed_check_while_the_engine_is_there() -> None:
    with (
        bench("v2", faults=[Fault(Kind.STATUS, turn=2)]) as b,
        pytest.raises(VerificationError, match="answered 500"),
    ):
        asyncio.run(b.drive_anthropic())


@pytest.mark.parametrize("stream", [True, False])
def test_a_hidden_reason_is_infrastructure_when_the_engine_is_gone(stream: bool) -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/ready":
            return httpx.Response(503, json={"status": "not ready"})
        return httpx.Response(502, json={"type": "error", "error": {"type": "api_error", "message": "Internal"}})

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(gone), base_url="http://session") as http:
            await SessionClient(http, "session-v2").message("s", {"stream": stream}, 5)

    with pytest.raises(ServiceError, match="session-v2 has no engine") as caught:
        asyncio.run(run())
    assert caught.value.service == "engine"


def reply(stop: str, *blocks: dict[str, Any]) -> Reply:
    return Reply("r", {"role": "assistant", "content": list(blocks)}, stop, None, None)


def use(name: str = "get_weather", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "c", "name": name, "input": {}, **more}


TEXT = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (reply("tool_use", use()), None),
        (reply("tool_use", {"type": "thinking", "thinking": "x"}, TEXT, use()), None),
        (reply("max_tokens", use()), Cause.MAX_TOKENS),
        (reply("end_turn", TEXT), Cause.NO_FORCED_CALL),
        (reply("tool_use", use(), use()), Cause.NO_FORCED_CALL),
        (reply("tool_use", use("other")), Cause.NO_FORCED_CALL),
        (reply("tool_use", use(input="x")), Cause.NO_FORCED_CALL),
        (reply("tool_use", use(input=[1])), Cause.NO_FORCED_CALL),
        (reply("end_turn", use()), Cause.STOP_REASON),
    ],
)
def test_a_forced_call_is_exactly_one_call_of_that_name_with_an_object(answer: Reply, cause: str | None) -> None:
    assert rejects_call(answer) == cause


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (reply("end_turn", TEXT), None),
        (reply("end_turn", {"type": "thinking", "thinking": "x"}, {"type": "text", "text": " "}, TEXT), None),
        (reply("max_tokens", TEXT), Cause.MAX_TOKENS),
        (reply("tool_use", TEXT, use()), Cause.UNEXPECTED_CALL),
        (reply("end_turn"), Cause.EMPTY),
        (reply("end_turn", {"type": "text", "text": " \n"}), Cause.EMPTY),
        (reply("end_turn", {"type": "thinking", "thinking": "x"}), Cause.EMPTY),
        (reply("stop_sequence", TEXT), Cause.STOP_REASON),
    ],
)
def test_a_text_turn_has_text_and_no_call(answer: Reply, cause: str | None) -> None:
    assert rejects_text(answer) == cause
