"""v1's line: what a retry, a rollback and a refusal do to it. Refused means unchanged, byte for byte."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from session_testing.engine import Held, Raw, Say
from session_testing.server import MORE, SYSTEM, TOOL, USER, Client

pytestmark = pytest.mark.anyio


def said(document: dict[str, Any]) -> list[str]:
    return [record["response"]["choices"][0]["message"]["content"] for record in document["records"]]


async def three_turns(client: Client) -> tuple[str, list[dict[str, Any]]]:
    """A session of three turns and its whole history."""
    session = await client.session()
    client.engine.script = [Say("One."), Say("Two."), Say("Three.")]
    history: list[dict[str, Any]] = [SYSTEM, USER]
    for question in (MORE, MORE, None):
        history.append(await client.said(session, history))
        if question is not None:
            history.append(question)
    return session, history


async def test_dropping_the_last_answer_asks_again_in_its_place(v1: Client) -> None:
    session, history = await three_turns(v1)
    v1.engine.script = [Say("Other.")]
    await v1.said(session, history[:-1])
    assert said(await v1.view(session)) == ["One.", "Two.", "Other."]


async def test_two_rollbacks_in_a_row_each_replace_the_last_answer(v1: Client) -> None:
    session, history = await three_turns(v1)
    v1.engine.script = [Say("Second try."), Say("Third try.")]
    await v1.said(session, history[:-1])
    await v1.said(session, history[:-1])
    assert said(await v1.view(session)) == ["One.", "Two.", "Third try."]


async def test_discarding_two_answers_is_refused_and_changes_nothing(v1: Client) -> None:
    session, history = await three_turns(v1)
    before = await v1.snapshot(session)
    response = await v1.chat(session, history[:4])
    assert response.status_code == 400
    assert response.json()["error"] == (
        "rollback failed: discard_count=2 exceeds max_assistant_rollback_steps=1 "
        "(stored has 7 messages, request has 4 messages)"
    )
    assert await v1.snapshot(session) == before


async def test_a_first_answer_may_be_rolled_back_to_nothing(v1: Client) -> None:
    session = await v1.session()
    v1.engine.script = [Say("One."), Say("Other.")]
    await v1.said(session, [SYSTEM, USER])
    await v1.said(session, [SYSTEM, USER])
    document = await v1.view(session)
    assert said(document) == ["Other."]
    assert v1.engine.requests[0]["input_ids"] == v1.engine.requests[1]["input_ids"]


async def test_a_reply_lost_after_commit_can_be_asked_for_again_miles_1714_889(v1: Client) -> None:
    """miles#1714, miles#889: the client resends the shorter history; the session lives on."""
    session, history = await three_turns(v1)
    v1.engine.script = [Say("Again."), Say("On.")]
    again = await v1.said(session, history[:-1])
    await v1.said(session, [*history[:-1], again, MORE])
    assert said(await v1.view(session)) == ["One.", "Two.", "Again.", "On."]


async def test_a_refused_retry_keeps_the_last_turn_miles_3311(v1: Client) -> None:
    """miles#3311: the rollback does not happen unless the new turn does."""
    session, history = await three_turns(v1)
    before = await v1.snapshot(session)
    v1.engine.script = [Raw(b'{"error":"bad"}', 400), Raw(b"dead", 503), Say(without_meta=("completion_tokens",))]
    for status in (400, 503, 502):
        assert (await v1.chat(session, history[:-1])).status_code == status
        assert await v1.snapshot(session) == before
    refused = await v1.chat(session, history[:-1], chat_template_kwargs={"clear_thinking": True})
    assert refused.status_code == 400
    assert refused.json()["error"] == (
        "chat template kwarg clear_thinking=True conflicts with the value registered for Qwen3TITOTokenizer: False"
    )
    assert await v1.snapshot(session) == before


async def test_equal_bodies_sample_afresh_verifiers_2368(v1: Client) -> None:
    """verifiers#2368: nothing is answered from memory."""
    session = await v1.session()
    v1.engine.script = [Say("One."), Say("Two.")]
    assert (await v1.said(session, [SYSTEM, USER]))["content"] == "One."
    assert (await v1.said(session, [SYSTEM, USER]))["content"] == "Two."


async def test_resending_the_whole_history_adds_only_the_generation_prompt(v1: Client) -> None:
    session, history = await three_turns(v1)
    before = (await v1.view(session))["metadata"]["accumulated_token_ids"]
    await v1.said(session, history)
    added = v1.engine.requests[-1]["input_ids"][len(before) :]
    assert v1.engine.vocabulary.decode(added) == "\n<|im_start|>assistant\n"


async def test_messages_that_the_client_injected_are_plain_history(v1: Client) -> None:
    session = await v1.session()
    first = await v1.said(session, [SYSTEM, USER])
    injected = {"role": "assistant", "content": "The weather in Beijing was sunny."}
    history = [SYSTEM, USER, first, injected, injected, MORE]
    await v1.said(session, history)
    document = await v1.view(session)
    assert len(document["records"]) == 2
    assert document["metadata"]["tito_session_mismatch"] == []


async def test_a_role_that_the_template_cannot_append_is_refused_and_named(start) -> None:
    async with start(core_version="v1", tito_model="qwen35") as client:
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        before = await client.snapshot(session)
        response = await client.chat(session, [SYSTEM, USER, first, SYSTEM, MORE])
        assert response.status_code == 400
        assert response.json()["error"] == (
            "appended message at index 3 has role='system', allowed=['assistant', 'tool', 'user']; "
            "the selected TITO fixed template does not support appending this role"
        )
        assert await client.snapshot(session) == before


@pytest.mark.parametrize("reason", ["length", "abort"])
async def test_a_cut_turn_cannot_be_extended_but_asked_again_vllm_58228(v1: Client, reason: str) -> None:
    session = await v1.session()
    v1.engine.script = [Say("Cut", finish=reason, end=None), Say("Whole.")]
    cut = await v1.said(session, [SYSTEM, USER])
    before = await v1.snapshot(session)
    for history in ([SYSTEM, USER, cut, MORE], [SYSTEM, USER, cut]):
        response = await v1.chat(session, history)
        assert response.status_code == 409
        assert response.json()["error"] == (
            "truncated generation cannot be extended: the matched node ended with "
            f"finish_reason={reason!r} and truncation closes that path for good; branch before the cut instead"
        )
        assert await v1.snapshot(session) == before
    await v1.said(session, [SYSTEM, USER])
    assert said(await v1.view(session)) == ["Whole."]


@pytest.mark.parametrize("budget", ["max_tokens", "max_completion_tokens"])
async def test_a_full_budget_is_a_cut_whatever_the_engine_calls_it_vllm_53269(v1: Client, budget: str) -> None:
    """vllm#53269, vllm#58228: a call cut by the budget is not a finished call."""
    call = [("call_1", "get_weather", {"location": "Beijing"})]
    cut = Say("", calls=call, end=None)
    used = len(v1.engine.vocabulary.encode(cut.sampled()))
    session = await v1.session()
    v1.engine.script = [cut]
    response = await v1.chat(session, [SYSTEM, USER], tools=[TOOL], **{budget: used})
    assert response.json()["choices"][0]["finish_reason"] == "length"
    assert (await v1.view(session))["records"][0]["response"]["choices"][0]["finish_reason"] == "length"
    message = response.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "call_1", "content": "22"}
    assert (await v1.chat(session, [SYSTEM, USER, message, result], tools=[TOOL])).status_code == 409


async def test_a_budget_used_up_by_the_end_token_is_no_cut(v1: Client) -> None:
    say = Say("Sunny.")
    used = len(v1.engine.vocabulary.encode(say.sampled() + "<|im_end|>"))
    session = await v1.session()
    v1.engine.script = [say]
    response = await v1.chat(session, [SYSTEM, USER], max_tokens=used)
    assert response.json()["choices"][0]["finish_reason"] == "stop"


async def test_a_second_turn_at_the_same_time_is_refused_before_the_engine(v1: Client) -> None:
    """miles#2293: as many records as 200 replies."""
    session = await v1.session()
    held = Held()
    v1.engine.script = [held]
    first = asyncio.create_task(v1.chat(session, [SYSTEM, USER]))
    await held.arrived.wait()
    second = await v1.chat(session, [SYSTEM, USER])
    assert second.status_code == 409
    assert second.json()["error"].startswith("session busy")
    assert len(v1.engine.requests) == 1
    held.release.set()
    assert (await first).status_code == 200
    assert len((await v1.view(session))["records"]) == 1


async def test_other_sessions_are_not_held_up_by_a_busy_one(v1: Client) -> None:
    session, other = await v1.session(), await v1.session()
    held = Held()
    v1.engine.script = [held]
    first = asyncio.create_task(v1.chat(session, [SYSTEM, USER]))
    await held.arrived.wait()
    assert (await v1.chat(other, [SYSTEM, USER])).status_code == 200
    assert (await v1.http.get("/health")).status_code == 200
    held.release.set()
    await first


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_deleting_a_session_never_waits_and_withdraws_its_turn_miles_870(start, version: str) -> None:
    """miles#870: DELETE answers at once, the engine is let go, the turn is not answered with 200."""
    async with start(core_version=version) as client:
        session = await client.session()
        held = Held()
        client.engine.script = [held]
        turn = asyncio.create_task(client.chat(session, [SYSTEM, USER]))
        await held.arrived.wait()
        assert (await client.http.delete(session)).status_code == 204
        response = await turn
        assert response.status_code == 404
        assert "was deleted while this turn was generated" in response.json()["error"]
        assert held.withdrawn.is_set()
        assert (await client.http.delete(session)).status_code == 404


async def test_the_turn_limit_refuses_with_409(start) -> None:
    async with start(core_version="v1", max_nodes_per_session=1) as client:
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        response = await client.chat(session, [SYSTEM, USER, first, MORE])
        assert (response.status_code, response.json()["error"]) == (
            409,
            "session is full: it holds 1 turns; start a new session",
        )
        assert (await client.chat(session, [SYSTEM, USER])).status_code == 200


async def test_stored_ids_are_sent_again_even_where_a_render_would_differ_nemo_gym_1787(v1: Client) -> None:
    """NeMo-Gym#1787: arguments with newlines, quotes, unicode, or a closing think tag inside."""
    session = await v1.session()
    odd = '{"location":  "Bei\\njing \\"x\\" 東京 </think> é"}'
    v1.engine.script = [Say("", calls=[("call_1", "get_weather", odd)]), Say("Sunny.")]
    first = await v1.said(session, [SYSTEM, USER], tools=[TOOL])
    assert first["tool_calls"][0]["function"]["arguments"] == odd
    result = {"role": "tool", "tool_call_id": "call_1", "content": "22"}
    await v1.said(session, [SYSTEM, USER, first, result], tools=[TOOL])
    one, two = (await v1.view(session))["records"]
    output = [e[1] for e in one["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
    whole = one["request"]["input_ids"] + output
    assert two["request"]["input_ids"][: len(whole)] == whole
    [mismatch] = (await v1.view(session))["metadata"]["tito_session_mismatch"]
    assert mismatch["type"] == "assistant_text"


async def test_a_stored_call_keeps_id_name_and_arguments_verl_3960(v1: Client) -> None:
    """verl#3960."""
    session = await v1.session()
    v1.engine.script = [Say("", calls=[("call_9", "get_weather", {"location": "Beijing"})])]
    await v1.said(session, [SYSTEM, USER], tools=[TOOL])
    [call] = (await v1.view(session))["records"][0]["response"]["choices"][0]["message"]["tool_calls"]
    assert (call["id"], call["function"]) == (
        "call_9",
        {"name": "get_weather", "arguments": '{"location": "Beijing"}'},
    )


async def test_two_tool_results_are_one_turn_of_the_template_slime_2263(v1: Client) -> None:
    """slime#2263."""
    session = await v1.session()
    calls = [("c1", "get_weather", {"location": "Beijing"}), ("c2", "get_weather", {"location": "Shanghai"})]
    v1.engine.script = [Say("", calls=calls)]
    first = await v1.said(session, [SYSTEM, USER], tools=[TOOL])
    results = [{"role": "tool", "tool_call_id": call[0], "content": call[0]} for call in calls]
    await v1.said(session, [SYSTEM, USER, first, *results], tools=[TOOL])
    text = v1.engine.vocabulary.decode(v1.engine.requests[-1]["input_ids"])
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\nc1\n</tool_response>\n<tool_response>\nc2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


async def test_the_system_prompt_cannot_change_in_the_middle_of_a_line(v1: Client) -> None:
    """vllm-mlx#277: on a line it is a rollback too far; a tree opens a new root."""
    session, history = await three_turns(v1)
    response = await v1.chat(session, [{**SYSTEM, "content": "Request 2."}, *history[1:]])
    assert response.status_code == 400
    assert "discard_count=3" in response.json()["error"]


async def test_the_history_may_say_no_tool_calls_in_any_way_vllm_13978(v1: Client) -> None:
    """vllm#13978."""
    session, history = await three_turns(v1)
    for spelled in ([], None):
        replay = [{**m, "tool_calls": spelled} if m["role"] == "assistant" else m for m in history]
        await v1.said(session, [*replay, MORE])
    assert len((await v1.view(session))["records"]) == 4


async def test_replaying_without_reasoning_is_another_history_slime_2288(v1: Client) -> None:
    """slime#2288: a dropped reasoning is seen, not papered over."""
    session, history = await three_turns(v1)
    stripped = [{k: v for k, v in m.items() if k != "reasoning_content"} for m in history]
    response = await v1.chat(session, [*stripped, MORE])
    assert response.status_code == 400
    assert "discard_count=3" in response.json()["error"]
