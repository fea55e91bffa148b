"""The scripted engine: SGLang's shapes, a perfect model's replies, and each fault exactly where it is put."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scripted_engine.app import build
from tests.scripted_engine.dialects import DIALECTS
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind, read_faults
from tests.scripted_engine.model import answer
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
ASK = {"role": "user", "content": "What's the weather in Beijing?"}


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(MODEL)


@pytest.fixture
def url(engine: ScriptedEngine) -> Iterator[str]:
    with served(build(engine)) as base:
        yield base


def body(**more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [ASK],
        "tools": TOOLS,
        "input_ids": [0, 1, 2],
        "logprobs": True,
        "return_meta_info": True,
        "no_stop_trim": False,
        **more,
    }


def chat(url: str, key: str = "a", timeout: float = 10.0, **more: Any) -> httpx.Response:
    headers = {"X-SMG-Routing-Key": key}
    return httpx.post(f"{url}/v1/chat/completions", json=body(**more), headers=headers, timeout=timeout)


def test_a_completion_has_the_shape_of_sglangs(url: str, engine: ScriptedEngine) -> None:
    reply = chat(url).json()
    (choice,) = reply["choices"]
    meta = choice["meta_info"]
    ids = [entry[1] for entry in meta["output_token_logprobs"]]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == ""
    assert choice["message"]["reasoning_content"] == "\nThe user wants the weather in Beijing.\n"
    (call,) = choice["message"]["tool_calls"]
    assert call["index"] == 0
    assert call["function"] == {"name": "get_weather", "arguments": '{"location": "Beijing"}'}
    assert ids[-1] == engine.tokenizer.token_to_id("<|im_end|>")
    assert meta["completion_tokens"] == reply["usage"]["completion_tokens"] == len(ids)
    assert meta["prompt_tokens"] == reply["usage"]["prompt_tokens"] == 3
    assert meta["weight_version"] == "default"
    assert meta["id"] == reply["id"]
    text = engine.tokenizer.decode(ids, skip_special_tokens=False)
    assert text.startswith("<think>\n")
    assert text.endswith('{"name": "get_weather", "arguments": {"location": "Beijing"}}\n</tool_call><|im_end|>')


def test_sampled_ids_are_not_the_canonical_split_of_their_text(url: str, engine: ScriptedEngine) -> None:
    ids = [entry[1] for entry in chat(url).json()["choices"][0]["meta_info"]["output_token_logprobs"]]
    text = engine.tokenizer.decode(ids, skip_special_tokens=False)
    assert engine.tokenizer.encode(text, add_special_tokens=False).ids != ids


def test_the_same_prompt_is_answered_in_other_words(url: str) -> None:
    thoughts = {chat(url).json()["choices"][0]["message"]["reasoning_content"] for _ in range(4)}
    assert len(thoughts) == 4


def test_meta_info_comes_only_when_asked_for_and_never_with_a_stream(url: str) -> None:
    assert "meta_info" not in chat(url, return_meta_info=False).json()["choices"][0]
    assert chat(url, stream=True).status_code == 400


@pytest.mark.parametrize("ids", [None, [], [0, -1], [999_999], ["a"], "abc"])
def test_a_prompt_that_is_no_list_of_known_ids_is_refused(url: str, ids: Any) -> None:
    response = chat(url, input_ids=ids)
    assert response.status_code == 400
    assert "input_ids" in response.json()["message"]


def test_a_small_budget_cuts_the_reply(url: str) -> None:
    (choice,) = chat(url, max_tokens=10).json()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["meta_info"]["completion_tokens"] == 10
    assert "tool_calls" not in choice["message"]


RESULT = {"role": "tool", "tool_call_id": "x", "content": '{"temperature": 22, "condition": "sunny", "humidity": 40}'}
NOTE = {"role": "system", "content": "Reminder: answer one question at a time and keep it short."}
SENTINEL = "No tool call was found in your last message. Call get_weather with the city to continue."


@pytest.mark.parametrize(
    ("messages", "choice", "content", "city"),
    [
        ([ASK], None, "", "Beijing"),
        ([ASK, {"role": "user", "content": "Now check the weather in Shanghai."}], "auto", "", "Shanghai"),
        ([ASK, RESULT], None, "It is sunny in Beijing at 22 degrees.", None),
        ([ASK, {**RESULT, "content": "service temporarily unavailable"}], None, "unavailable for Beijing", None),
        ([ASK, NOTE], None, "Understood", None),
        ([ASK, {**RESULT, "content": SENTINEL}], None, "", "Beijing"),
        ([ASK, {"role": "user", "content": SENTINEL}], None, "", "Beijing"),
        ([ASK, {"role": "user", "content": "Summarise, inside <final_answer> tags."}], None, "<final_answer>", None),
        ([ASK], "none", "How can I help", None),
        ([ASK, RESULT], "required", "", "Beijing"),
        ([ASK, RESULT], {"type": "function", "function": {"name": "get_weather"}}, "", "Beijing"),
        ([{"role": "user", "content": [{"type": "text", "text": "What's the weather in Paris?"}]}], None, "", "Paris"),
    ],
)
def test_one_kind_of_reply_for_each_kind_of_last_message(
    messages: list[dict[str, Any]], choice: Any, content: str, city: str | None
) -> None:
    said = answer(messages, TOOLS, choice)
    assert content in said.content
    assert [call["arguments"]["location"] for call in said.calls] == ([city] if city else [])
    assert said.forced == (choice == "required" or isinstance(choice, dict))


def test_a_forced_call_is_written_as_a_grammar_writes_it() -> None:
    said = answer([ASK], TOOLS, "required")
    text = DIALECTS["qwen3"].write(said, said.thought(0))
    assert '</think><tool_call>\n{"name":"get_weather", "arguments":{"location"' in text


@pytest.mark.parametrize(
    ("text", "content", "reasoning", "calls"),
    [
        ("<think>\na\n</think>\n\nHi", "\n\nHi", "\na\n", 0),
        ("<think>\nnever closed", "", "\nnever closed", 0),
        ("Hi", "Hi", None, 0),
        ('<think>a</think>x <tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "x", "a", 1),
        ('<think>a</think><tool_call>\n{"name": "f", "arg', "", "a", 0),
        ('<think>a</think><tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>', "", "a", 0),
        ("<think>a</think><tool_call>\nnope\n</tool_call>", "", "a", 0),
    ],
)
def test_text_is_taken_apart_as_sglangs_parsers_do(text: str, content: str, reasoning: str | None, calls: int) -> None:
    message = DIALECTS["qwen3"].parse(text, {"f"}, calls_allowed=True)
    assert message["content"] == content
    assert message["reasoning_content"] == reasoning
    assert len(message.get("tool_calls", [])) == calls


def told(response: httpx.Response) -> dict[str, Any]:
    reply = response.json()
    (choice,) = reply["choices"]
    return {**choice, "usage": reply["usage"], "entries": choice["meta_info"]["output_token_logprobs"]}


def test_each_fault_of_a_reply_does_what_it_says(url: str, engine: ScriptedEngine) -> None:
    def with_fault(kind: Kind, **options: Any) -> httpx.Response:
        engine.faults[:] = [Fault(kind, **options)]
        return chat(url)

    clean = told(chat(url))
    assert told(with_fault(Kind.TRUNCATE))["finish_reason"] == "length"
    assert told(with_fault(Kind.ABORT))["finish_reason"] == "abort"
    empty = told(with_fault(Kind.EMPTY))["message"]
    assert not empty["content"].strip()
    assert "tool_calls" not in empty
    stopped = told(with_fault(Kind.STOPPED))
    assert (stopped["finish_reason"], stopped["message"]["content"]) == ("stop", "")
    assert stopped["message"]["reasoning_content"].startswith("\n")
    wrong = told(with_fault(Kind.WRONG_REASON))
    assert (wrong["finish_reason"], len(wrong["message"]["tool_calls"])) == ("stop", 1)
    assert "tool_calls" not in told(with_fault(Kind.NO_CALL))["message"]
    assert told(with_fault(Kind.WRONG_NAME))["message"]["tool_calls"][0]["function"]["name"] == "get_<|im_end|>weather"
    counted = told(with_fault(Kind.COMPLETION_TOKENS, value=3))
    assert counted["meta_info"]["completion_tokens"] == len(counted["entries"]) + 3
    usage = told(with_fault(Kind.USAGE))
    assert usage["usage"]["completion_tokens"] == usage["meta_info"]["completion_tokens"] + 1
    assert [entry[0] for entry in told(with_fault(Kind.LOGPROBS))["entries"]].count(None) == 1
    dropped = told(with_fault(Kind.DROP_TOKEN))
    assert dropped["meta_info"]["completion_tokens"] == len(dropped["entries"])
    assert dropped["message"]["tool_calls"], "the text is that of all tokens"
    assert told(with_fault(Kind.SWAP_TOKEN))["message"]["tool_calls"]
    padded = told(with_fault(Kind.PADDED))["message"]["reasoning_content"]
    assert padded.startswith("\n  ")
    assert padded.endswith("  \n")
    eaten = told(with_fault(Kind.EATEN))["message"]["reasoning_content"]
    assert eaten == eaten.strip()
    assert with_fault(Kind.STATUS).status_code == 500
    assert with_fault(Kind.STATUS, value=503).status_code == 503
    with pytest.raises(json.JSONDecodeError):
        with_fault(Kind.BROKEN_JSON).json()
    with pytest.raises(httpx.ReadTimeout):
        engine.faults[:] = [Fault(Kind.HANG)]
        chat(url, timeout=0.2)
    assert told(chat(url))["finish_reason"] == clean["finish_reason"] == "tool_calls"


def test_a_delay_comes_before_the_reply(url: str, engine: ScriptedEngine) -> None:
    engine.faults[:] = [Fault(Kind.DELAY, value=0.2)]
    assert chat(url).elapsed.total_seconds() >= 0.2
    engine.faults[:] = [Fault(Kind.DELAY, value=5)]
    with pytest.raises(httpx.ReadTimeout):
        chat(url, timeout=0.2)


def test_a_fault_hits_the_turn_and_session_that_it_names_and_as_often_as_it_says() -> None:
    fault = Fault(Kind.TRUNCATE, turn=2, session=1, times=1)
    assert [fault.hits(1, 1), fault.hits(2, 2), fault.hits(1, 2)] == [False, False, True]
    fault.fired = 1
    assert not fault.hits(1, 2)
    endless = Fault(Kind.TRUNCATE, times=None, fired=100)
    assert endless.hits(5, 7)


def test_sessions_and_turns_are_counted_by_routing_key(url: str, engine: ScriptedEngine) -> None:
    engine.faults[:] = [Fault(Kind.STATUS, session=2, turn=2)]
    codes = [chat(url, key=key).status_code for key in ("a", "b", "a", "b", "b")]
    assert codes == [200, 200, 200, 500, 200]


def test_faults_are_set_shown_and_cleared_over_http(url: str) -> None:
    control = f"{url}/control/faults"
    assert httpx.post(control, json=[{"kind": "truncate", "turn": 1}]).json()[0]["fired"] == 0
    assert chat(url).json()["choices"][0]["finish_reason"] == "length"
    assert httpx.get(control).json()[0]["fired"] == 1
    assert httpx.delete(control).json() == []
    assert len(httpx.get(f"{url}/control/requests").json()) == 1


@pytest.mark.parametrize(
    "text", ["{}", "[1]", '[{"kind": "explode"}]', '[{"turn": 1}]', '[{"kind": "die", "when": 1}]', "x"]
)
def test_faults_that_do_not_exist_are_refused(text: str, url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_faults(text)
    assert httpx.post(f"{url}/control/faults", content=text).status_code == 400


def test_scoring_gives_the_ids_and_log_probs_that_were_recorded(url: str) -> None:
    prompt = [5, 6, 7]
    entries = chat(url, input_ids=prompt).json()["choices"][0]["meta_info"]["output_token_logprobs"]
    whole = prompt + [entry[1] for entry in entries]
    request = {
        "input_ids": whole,
        "sampling_params": {"max_new_tokens": 0},
        "return_logprob": True,
        "logprob_start_len": len(prompt) - 1,
    }
    scored = httpx.post(f"{url}/generate", json=request).json()["meta_info"]["input_token_logprobs"]
    assert scored[0] == [None, prompt[-1], None]
    assert scored[1:] == entries


def test_one_token_can_be_generated_and_the_engine_says_that_it_is_scripted(url: str) -> None:
    for prompt in ({"text": "Hello"}, {"input_ids": [5]}):
        reply = httpx.post(f"{url}/generate", json={**prompt, "sampling_params": {"max_new_tokens": 1}}).json()
        assert reply["meta_info"]["completion_tokens"] == 1
    for path in ("/health", "/health_generate", "/get_model_info", "/v1/models"):
        assert httpx.get(url + path).status_code == 200
    assert httpx.get(f"{url}/server_info").json()["scripted"] is True


def test_cached_tokens_are_those_that_the_session_shares_with_its_last_turn(engine: ScriptedEngine) -> None:
    session, _ = engine.arrive("a", {})
    assert engine.complete(body(input_ids=[1, 2, 3]), session, [])["choices"][0]["meta_info"]["cached_tokens"] == 0
    meta = engine.complete(body(input_ids=[1, 2, 9]), session, [])["choices"][0]["meta_info"]
    assert meta["cached_tokens"] == 2


def test_it_works_in_memory_as_well(engine: ScriptedEngine) -> None:
    async def run() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=build(engine)), base_url="http://e") as http:
            return (await http.post("/v1/chat/completions", json=body())).status_code

    assert asyncio.run(run()) == 200
