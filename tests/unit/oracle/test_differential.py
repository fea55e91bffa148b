"""Two ways of one script: equal ways differ in nothing, and what one of them changes is found, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.agents.records import Record
from runner.agents.transcript import TurnLog
from runner.base.terms import Difference
from runner.oracle.differential import Way, compare_ways
from runner.oracle.finding import Finding, Severity
from runner.oracle.spans import joints, pieces
from runner.oracle.tokens import Tokens
from tests.unit.agents.bench import MODEL

TOKENS = Tokens.load(MODEL)
TURNS = 4
TIED = 4
"""The sampled token of each turn that has an alternative of the same probability."""
CALLING = (0, 2)
"""Turns (from 0) whose reply is a call; the others are text."""
Raw = dict[str, Any]


def raw(name: str, *, trim: int = 0) -> list[Raw]:
    """A session of four turns with ids of its own for replies and calls; its tokens are the same for every name."""
    found: list[Raw] = []
    messages: list[Raw] = [{"role": "system", "content": "Be brief."}]
    prompt: list[int] = []
    for turn in range(TURNS):
        if turn in CALLING:
            messages.append({"role": "user", "content": f"Question {turn}?"})
        else:
            identity = messages[-1]["tool_calls"][0]["id"]
            messages.append({"role": "tool", "tool_call_id": identity, "content": f"result {turn}"})
        appended = TOKENS.encode(f"<|im_start|>{messages[-1]['role']}\n{messages[-1]['content']}<|im_end|>\n")
        prompt = [*prompt, *appended]
        sampled = TOKENS.encode(f"<think>\nTurn {turn}.\n</think>\n\nIt is sunny.<|im_end|>")
        reply: Raw = {"role": "assistant", "content": "It is sunny.", "reasoning_content": f"\nTurn {turn}.\n"}
        if turn in CALLING:
            function = {"name": "get_weather", "arguments": '{"location": "Beijing"}'}
            reply |= {"content": "", "tool_calls": [{"id": f"call_{name}_{turn}", "function": function}]}
        found.append(
            {
                "path": "/v1/chat/completions",
                "status_code": 200,
                "request": {"messages": copy.deepcopy(messages), "input_ids": list(prompt), "tools": [{"a": 1}]},
                "response": {
                    "id": f"{name}-{turn}",
                    "choices": [
                        {
                            "message": reply,
                            "finish_reason": "stop",
                            "meta_info": {
                                "output_token_logprobs": [
                                    [-0.25 if at != TIED else -0.7, token, None] for at, token in enumerate(sampled)
                                ],
                                "completion_tokens": len(sampled),
                            },
                        }
                    ],
                },
            }
        )
        messages.append(copy.deepcopy(reply))
        prompt = [*prompt, *sampled[: len(sampled) - trim]]
    return found


def way(name: str, records: list[Raw]) -> Way:
    read = [Record.model_validate(record) for record in records]
    path = [
        TurnLog(
            turn=index + 1,
            action="forced_tool" if index in CALLING else "text",
            parent=index or None,
            messages=[dict(message) for message in record.request.messages],
            reply=record.message,
            response_id=record.response.id,
            finish_reason=record.finish_reason,
            prompt_tokens=0,
            completion_tokens=0,
            seconds=0.0,
        )
        for index, record in enumerate(read)
    ]
    return Way(name, read, path)


def compared(
    change: Callable[[list[Raw]], object] | None = None, *, trim: int = 0, may_differ: tuple[Difference, ...] = ()
) -> list[Finding]:
    """The findings on a second session that `change` has altered."""
    other = raw("b", trim=trim)
    if change is not None:
        change(other)
    return compare_ways(
        way("session-v1", raw("a", trim=trim)),
        way("session-v2", other),
        max_trim=trim,
        may_differ=may_differ,
        tokens=TOKENS,
    )


def seen(findings: list[Finding]) -> list[tuple[str, int | None, str]]:
    return [(finding.type, finding.turn, finding.severity.value) for finding in findings]


def ids(record: Raw) -> list[int]:
    found: list[int] = record["request"]["input_ids"]
    return found


def choice(record: Raw) -> Raw:
    found: Raw = record["response"]["choices"][0]
    return found


def sampled(record: Raw) -> list[list[Any]]:
    found: list[list[Any]] = choice(record)["meta_info"]["output_token_logprobs"]
    return found


@pytest.mark.parametrize("trim", [0, 1])
def test_equal_ways_differ_in_nothing_though_every_call_has_an_id_of_its_own(trim: int) -> None:
    assert compared(trim=trim) == []


@pytest.mark.parametrize("trim", [0, 1])
def test_a_prompt_is_cut_into_what_was_appended_and_what_was_sampled(trim: int) -> None:
    records = way("a", raw("a", trim=trim)).records
    starts = joints(records, trim)
    for position, record in enumerate(records):
        cut = pieces(records, starts, position)
        assert [piece.start for piece in cut[1:]] == [piece.end for piece in cut[:-1]]
        assert (cut[0].start, cut[-1].end) == (0, len(record.input_ids))
        for piece in cut:
            part = record.input_ids[piece.start : piece.end]
            if piece.sampled:
                whole = records[piece.turn].output_ids
                assert part == whole[: len(whole) - trim]
            else:
                assert TOKENS.decode(part).startswith("<|im_start|>")


KINDS: list[tuple[str, Callable[[list[Raw]], object], tuple[str, int | None, str]]] = [
    (
        "a newline after the end of a turn is lost in one prompt",
        lambda r: ids(r[1]).pop(len(ids(r[0])) + len(sampled(r[0])) + 2),
        ("re_templated", 2, "hard"),
    ),
    ("content lost in a record", lambda r: r[3]["request"]["messages"][3].update(content=""), ("message", 4, "hard")),
    (
        "a call lost on the way back",
        lambda r: r[3]["request"]["messages"][2].pop("tool_calls"),
        ("message", 4, "hard"),
    ),
    (
        "thinking lost on the way back",
        lambda r: r[2]["request"]["messages"][2].pop("reasoning_content"),
        ("message", 3, "hard"),
    ),
    (
        "a result for another call",
        lambda r: r[3]["request"]["messages"][3].update(tool_call_id="x"),
        ("message", 4, "hard"),
    ),
    ("a message too many", lambda r: r[2]["request"]["messages"].insert(1, {"role": "user"}), ("roles", 3, "hard")),
    ("a reply read otherwise", lambda r: choice(r[1])["message"].update(content="It is"), ("reply", 2, "hard")),
    ("another finish reason", lambda r: choice(r[2]).update(finish_reason="length"), ("finish_reason", 3, "hard")),
    ("another sampled token", lambda r: sampled(r[1])[4].__setitem__(slice(0, 2), [-2.0, 7]), ("output", 2, "hard")),
    ("a sampled token lost", lambda r: sampled(r[3]).pop(), ("output", 4, "hard")),
    ("a record lost", lambda r: r.pop(), ("script", None, "hard")),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_each_kind_of_difference_is_found_at_its_turn_and_nothing_else_is(
    change: Callable[[list[Raw]], object], expected: tuple[str, int | None, str]
) -> None:
    assert seen(compared(change)) == [expected]


def test_a_record_that_no_turn_caused_leaves_nothing_to_compare() -> None:
    subject = way("session-v2", raw("b"))
    short = replace(subject, path=subject.path[:-1])
    found = compare_ways(way("session-v1", raw("a")), short, max_trim=0, may_differ=(), tokens=TOKENS)
    assert seen(found) == [("records", None, "hard")]


def test_a_difference_of_a_prompt_shows_both_sides_and_eight_tokens_around(tokens: Tokens) -> None:
    first = raw("a")
    at = len(ids(first[0])) + len(sampled(first[0])) + 2
    (finding,) = compared(lambda r: ids(r[1]).pop(at))
    assert finding.role == "tool"
    assert finding.diff is not None
    assert finding.diff.token_index == at
    assert finding.diff.expected_id == ids(first[1])[at]
    assert finding.diff.expected_ids == ids(first[1])[at - 8 : at + 9]
    assert finding.diff.expected_text == tokens.decode(ids(first[1])[at - 8 : at + 9])
    assert "session-v1" in finding.message
    assert "appended with turn 2" in finding.message


def test_what_is_written_otherwise_from_one_turn_on_is_told_once() -> None:
    """A server that loses a newline keeps it lost in every later prompt."""
    at = len(ids(raw("a")[0])) + len(sampled(raw("a")[0])) + 2

    def lose(records: list[Raw]) -> None:
        for record in records[1:]:
            ids(record).pop(at)

    assert seen(compared(lose)) == [("re_templated", 2, "hard")]


def test_text_that_was_tokenized_again_is_told_as_that() -> None:
    def split(records: list[Raw]) -> None:
        for record in records:
            prompt = ids(record)
            where = next(at for at, token in enumerate(prompt) if len(TOKENS.decode([token])) > 3 and token < 1000)
            text = TOKENS.decode([prompt[where]])
            prompt[where : where + 1] = [*TOKENS.encode(text[:1]), *TOKENS.encode(text[1:])]

    assert seen(compared(split)) == [("re_tokenized", 1, "hard")]


@pytest.mark.parametrize(("allowed", "severity"), [((), "hard"), ((Difference.TOOL_SCHEMA,), "note")])
def test_another_form_of_the_tool_is_allowed_only_where_the_family_says_so(
    allowed: tuple[Difference, ...], severity: str
) -> None:
    def other_form(records: list[Raw]) -> None:
        for record in records:
            record["request"]["tools"] = [{"a": 1, "strict": False}]
            ids(record)[0:0] = TOKENS.encode("strict")

    assert seen(compared(other_form, may_differ=allowed)) == [("tool_schema", 1, severity)]


def test_another_order_of_a_tools_keys_is_another_form() -> None:
    """Templates print the keys in the order in which they come."""

    def reordered(records: list[Raw]) -> None:
        for record in records:
            record["request"]["tools"] = [{"b": 2, "a": 1}]
            ids(record)[0:0] = TOKENS.encode("b")

    def ordered(records: list[Raw]) -> list[Raw]:
        for record in records:
            record["request"]["tools"] = [{"a": 1, "b": 2}]
        return records

    other = raw("b")
    reordered(other)
    found = compare_ways(way("a", ordered(raw("a"))), way("b", other), max_trim=0, may_differ=(), tokens=TOKENS)
    assert seen(found) == [("tool_schema", 1, "hard")]


@pytest.mark.parametrize(("allowed", "severity"), [((), "hard"), ((Difference.CALL_IDS,), "note")])
def test_printed_call_ids_are_allowed_only_where_the_family_says_so(
    allowed: tuple[Difference, ...], severity: str
) -> None:
    def printed(name: str) -> list[Raw]:
        records = raw(name)
        grown: list[int] = []
        for index, record in enumerate(records):
            prompt = ids(record)
            if index >= 1:
                grown = TOKENS.encode(f"call_{name}_0:")
                at = len(ids(records[0])) + len(sampled(records[0]))
                prompt[at:at] = grown
        return records

    found = compare_ways(
        way("v2 openai", printed("a")), way("v2 anthropic", printed("b")), max_trim=0, may_differ=allowed, tokens=TOKENS
    )
    assert seen(found) == [("call_ids", 2, severity)]


def test_a_choice_between_equally_likely_tokens_is_a_note_and_the_rest_is_not_compared() -> None:
    def flip(records: list[Raw]) -> None:
        sampled(records[1])[TIED][:2] = [-0.7000004, 7]
        choice(records[1])["message"]["content"] = "It was sunny."
        for record in records[2:]:
            record["request"]["messages"][4]["content"] = "It was sunny."
            ids(record)[len(ids(records[1])) + 4] = 7
        sampled(records[2])[5][:2] = [-3.0, 9]

    assert seen(compared(flip)) == [("near_tie", 2, "note"), ("diverged", 3, "note")]


def test_two_tokens_that_are_both_likelier_than_half_are_no_tie() -> None:
    """A lost token leaves confident neighbours beside each other: equal log-probs alone show nothing."""

    def lose(records: list[Raw]) -> None:
        del sampled(records[1])[2]

    assert seen(compared(lose)) == [("output", 2, "hard")]


def test_what_is_appended_is_compared_also_after_a_near_tie() -> None:
    def flip_and_lose(records: list[Raw]) -> None:
        sampled(records[0])[TIED][:2] = [-0.7000004, 7]
        for record in records[1:]:
            ids(record)[len(ids(records[0])) + 4] = 7
        ids(records[3]).pop()

    found = seen(compared(flip_and_lose))
    assert found == [("near_tie", 1, "note"), ("re_templated", 4, "hard")]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_mutation_of_one_prompt_is_found_in_its_turn_and_nowhere_else(data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, TURNS - 1))
    length = len(ids(raw("b")[turn]))
    at = data.draw(st.integers(0, length - 1))
    kind = data.draw(st.sampled_from(["swap", "drop", "insert"]))
    token = data.draw(st.integers(300, 900))

    def mutate(records: list[Raw]) -> None:
        prompt = ids(records[turn])
        if kind == "drop":
            del prompt[at]
        elif kind == "insert":
            prompt.insert(at, token)
        else:
            prompt[at] = token if prompt[at] != token else token + 1

    found = compared(mutate)
    assert [finding.turn for finding in found] == [turn + 1]
    assert found[0].role in ("system+user", "system", "user", "tool", "assistant")
    assert found[0].severity is Severity.HARD
    assert found[0].diff is not None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_mutation_of_sampled_ids_is_found_in_its_turn_and_nowhere_else(data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, TURNS - 1))
    at = data.draw(st.integers(0, len(sampled(raw("b")[turn])) - 1))
    drop = data.draw(st.booleans())

    def mutate(records: list[Raw]) -> None:
        entries = sampled(records[turn])
        if drop:
            del entries[at]
        else:
            entries[at] = [-1.5, (entries[at][1] + 1) % 1000, None]

    found = compared(mutate)
    assert seen(found) == [("output", turn + 1, "hard")]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_message_is_found_in_its_turn_and_nowhere_else(data: st.DataObject) -> None:
    turn = data.draw(st.integers(0, TURNS - 1))
    index = data.draw(st.integers(0, len(raw("b")[turn]["request"]["messages"]) - 1))

    def mutate(records: list[Raw]) -> None:
        message = records[turn]["request"]["messages"][index]
        message["content"] = f"{message['content']} and more"

    found = compared(mutate)
    assert seen(found) == [("message", turn + 1, "hard")]
