"""The content scenarios: each clean in every lane in which it runs, and each with the faults that it is there for.

A fault of the session server is put into the server itself, so that the script meets it as it would be met.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from runner.agents.scenarios import arguments
from runner.agents.scenarios.parallel import CALL_SYNTAX
from runner.base.errors import VerificationError
from runner.base.terms import Lane
from runner.oracle.render import as_sent
from runner.plan.scenarios import PAIR_PARSERS, SCENARIOS
from tests.scripted_engine import model as scripted_model
from tests.scripted_engine.dialects.qwen3 import Qwen3
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.scenarios.stage import Driven, driven, measure, other_matching

from session_server.core.turn import Message, Position  # isort: skip
from session_server.tito.codec import Codec  # isort: skip
from session_server.wire import openai as chat_wire  # isort: skip
from session_server.wire import replay as replay_wire  # isort: skip

CONTENT = ("parallel-tools", "arguments", "list-content", "volatile-system", "cache-control")
CELLS = [(name, lane) for name in CONTENT for lane in Lane if lane not in SCENARIOS[name].refuses]
V1, V2, MESSAGES = Lane.V1_OPENAI, Lane.V2_OPENAI, Lane.V2_ANTHROPIC


@cache
def clean(scenario: str, lane: Lane) -> Driven:
    """The session without a fault; it is not changed by those who look at it."""
    return driven(scenario, lane)


@pytest.mark.parametrize(("scenario", "lane"), CELLS)
def test_a_clean_session_has_nothing_hard_and_shows_all_that_is_asked_for(scenario: str, lane: Lane) -> None:
    session = clean(scenario, lane)
    assert session.hard() == set()
    assert session.soft() <= {"tool_call_serialization"}
    assert session.covered()
    assert not session.transcript.retries


@pytest.mark.parametrize(("scenario", "lane"), [("parallel-tools", V2), ("arguments", V1), ("list-content", MESSAGES)])
def test_a_streamed_session_is_as_clean(scenario: str, lane: Lane) -> None:
    session = driven(scenario, lane, stream=True)
    assert session.hard() == set()
    assert session.covered()


def messages_of(snapshot: dict[str, Any], record: int) -> list[dict[str, Any]]:
    return snapshot["records"][record]["request"]["messages"]


# --- parallel-tools


def test_two_calls_are_sampled_where_a_pattern_can_be_asked_for_and_the_tail_is_the_two_results() -> None:
    session = clean("parallel-tools", V2)
    assert frozenset(CALL_SYNTAX) == PAIR_PARSERS
    assert [len(turn.reply.get("tool_calls") or []) for turn in session.transcript.turns] == [0, 0, 2, 0]  # type: ignore[arg-type]
    assert [message["role"] for message in session.transcript.turns[-1].messages[-3:]] == ["assistant", "tool", "tool"]
    assert session.transcript.driver_events.count("parallel_sampled") == 1
    assert "parallel_sampled" not in clean("parallel-tools", MESSAGES).transcript.driver_events


@pytest.mark.parametrize("lane", Lane)
def test_results_that_are_rendered_one_by_one_are_caught(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Codec._tail_text

    def one_by_one(self: Codec, position: Position, **options: Any) -> str:
        texts = [whole(self, dataclasses.replace(position, tail=(m,)), **options) for m in position.tail]
        return "".join(text.removesuffix("<|im_start|>assistant\n") for text in texts[:-1]) + texts[-1]

    monkeypatch.setattr(Codec, "_tail_text", one_by_one)
    assert "render:special_token_count" in driven("parallel-tools", lane).hard()


@pytest.mark.parametrize(
    ("alter", "type_"),
    [
        (lambda tail: tail.reverse(), "history:message"),
        (lambda tail: tail.pop(), "history:roles"),
        (lambda tail: tail[0].update(tool_call_id="call_x"), "history:message"),
    ],
)
def test_results_that_are_recorded_otherwise_are_caught(alter: Callable[[list[Any]], Any], type_: str) -> None:
    def change(snapshot: dict[str, Any]) -> None:
        messages = messages_of(snapshot, 3)
        tail = messages[-2:]
        del messages[-2:]
        alter(tail)
        messages += tail

    assert type_ in clean("parallel-tools", V2).hard(change)


def test_a_second_call_that_is_lost_from_the_history_is_caught() -> None:
    def lose(snapshot: dict[str, Any]) -> None:
        messages_of(snapshot, 3)[-3]["tool_calls"].pop()

    assert {"history:message", "history:replay"} <= clean("parallel-tools", V2).hard(lose)


def test_an_engine_that_does_not_keep_to_the_pattern_fails_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted_model, "_PLACE", re.compile('"location": "(London)"'))
    with pytest.raises(VerificationError, match="the engine was held to calls for"):
        driven("parallel-tools", V1)


# --- arguments


@pytest.mark.parametrize("lane", Lane)
def test_the_hard_arguments_are_in_the_prompt_of_every_later_turn_as_they_were_sampled(lane: Lane) -> None:
    records = clean("arguments", lane).view.records
    sampled = records[0].output_ids
    assert "</think> of Beijing" in measure().tokens.decode(sampled).partition("</think>")[2]
    for record in records[1:]:
        start = len(records[0].input_ids)
        assert record.input_ids[start : start + len(sampled)] == sampled


@pytest.mark.parametrize("lane", Lane)
def test_a_call_that_is_written_again_from_what_was_parsed_is_caught(lane: Lane) -> None:
    session = clean("arguments", lane)

    def again(snapshot: dict[str, Any]) -> None:
        request = snapshot["records"][1]["request"]
        canon = measure().canon
        assert canon is not None
        tools = as_sent(request["tools"], session.transcript.tools)
        request["input_ids"] = canon.ids(request["messages"], tools, prompt=True)

    found = [f for f in session.judged(again) if f.check == "prefix"]
    assert [(f.type, f.role) for f in found[:1]] == [("parser", "assistant")]
    assert found[0].diff is not None


def test_ids_that_are_made_again_from_the_text_are_caught() -> None:
    def again(snapshot: dict[str, Any]) -> None:
        tokens = measure().tokens
        request = snapshot["records"][1]["request"]
        request["input_ids"] = tokens.encode(tokens.decode(request["input_ids"]))

    assert "prefix:re_tokenized" in clean("arguments", V2).hard(again)


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call.update(id="call_other"),
        lambda call: call["function"].update(name="get_time"),
        lambda call: call["function"].update(arguments=call["function"]["arguments"].replace("</think>", "")),
        lambda call: call["function"].update(arguments=call["function"]["arguments"].replace("\\n", "\n")),
    ],
)
@pytest.mark.parametrize("lane", Lane)
def test_a_recorded_call_that_changes_its_id_name_or_arguments_is_caught(
    lane: Lane, change: Callable[[dict[str, Any]], Any]
) -> None:
    def alter(snapshot: dict[str, Any]) -> None:
        calls = [m["tool_calls"][0] for m in messages_of(snapshot, 3) if m.get("tool_calls")]
        change(calls[0])

    assert "history:message" in clean("arguments", lane).hard(alter)


def test_a_parser_that_ends_the_thinking_at_the_last_tag_fails_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Qwen3.parse

    def last_tag(self: Qwen3, text: str, names: set[str], calls_allowed: bool) -> dict[str, Any]:
        thought, _, rest = text.rpartition("</think>")
        message = right(self, rest, names, calls_allowed)
        return {**message, "reasoning_content": thought.removeprefix("<think>")}

    monkeypatch.setattr(Qwen3, "parse", last_tag)
    with pytest.raises(VerificationError, match="exhausted 2 retries after no_forced_call"):
        driven("arguments", V1)


def test_an_engine_that_does_not_enforce_the_schema_fails_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted_model, "_allowed", lambda tools: None)
    with pytest.raises(VerificationError, match="the grammar allows only"):
        driven("arguments", V2)


def test_the_value_has_all_that_is_hard_to_keep() -> None:
    assert all(part in arguments.LOCATION for part in ("\n", "\t", '"', "\\", "北京", "é", "🌦", "</think>"))


# --- list-content


@pytest.mark.parametrize("lane", Lane)
def test_lists_that_render_as_nothing_are_caught(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(message: Message) -> Message:
        return {**message, "content": ""} if isinstance(message.get("content"), list) else message

    for reader in (chat_wire, replay_wire):
        monkeypatch.setattr(reader, "as_text", blind)
    session = driven("list-content", lane)
    assert "render:non_assistant_text" in session.hard()
    assert session.snapshot["metadata"]["tito_session_mismatch"] is not None


@pytest.mark.parametrize("lane", Lane)
def test_parts_that_are_put_together_with_something_between_are_caught(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spaced(message: Message) -> Message:
        content = message.get("content")
        joined = " ".join(part["text"] for part in content) if isinstance(content, list) else content
        return {**message, "content": joined}

    for reader in (chat_wire, replay_wire):
        monkeypatch.setattr(reader, "as_text", spaced)
    assert "render:non_assistant_text" in driven("list-content", lane).hard()


@pytest.mark.parametrize("lane", Lane)
def test_a_part_that_is_missing_from_the_record_is_caught(lane: Lane) -> None:
    def lose(snapshot: dict[str, Any]) -> None:
        question = messages_of(snapshot, 0)[1]["content"]
        assert isinstance(question, list)
        question.pop()

    assert "history:message" in clean("list-content", lane).hard(lose)


# --- cache-control


def test_the_mark_moves_with_every_turn_and_the_system_prompt_keeps_its_own() -> None:
    for turn in clean("cache-control", MESSAGES).transcript.turns:
        marked = [index for index, message in enumerate(turn.messages) if "cache_control" in str(message)]
        assert marked == [0, len(turn.messages) - 1]


def test_a_tree_that_takes_a_moved_mark_for_other_content_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    other_matching(monkeypatch, lambda a, b, matcher: a["role"] not in ("user", "tool") and matcher(a, b))
    assert "tree:branch" in driven("cache-control", MESSAGES).hard()


# --- what all of them need


@pytest.mark.parametrize(("scenario", "lane"), [("list-content", V1), ("cache-control", MESSAGES)])
def test_a_cut_reply_is_asked_for_again_and_the_session_stays_clean(scenario: str, lane: Lane) -> None:
    session = driven(scenario, lane, faults=[Fault(Kind.TRUNCATE, turn=2)])
    assert sum(session.transcript.retries.values()) == 1
    assert session.hard() == set()
