"""`volatile-system`: a new root, both conversations judged token by token, and a line that refuses instead.

Faults that lie in the conversation that was left alone are put into what the server showed of it, or into the engine at
its last turn; the active path has nothing of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from runner.agents.scenarios import volatile
from runner.agents.transcript import TRANSCRIPT_ADAPTER, Forest
from runner.base.errors import VerificationError
from runner.base.terms import Lane
from runner.oracle.finding import Finding, Severity
from runner.oracle.forest import others_of
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.scenarios.stage import Driven, driven, measure, other_matching

from session_server.core import linear  # isort: skip
from session_server.core.turn import Position  # isort: skip

V1, V2, MESSAGES = Lane
LEFT = [1, 2, 5]
"""The turns of the conversation under the old line; it ends while the other one goes on."""


@cache
def clean(lane: Lane) -> Driven:
    """The session without a fault; it is not changed by those who look at it."""
    return driven("volatile-system", lane)


@pytest.mark.parametrize("lane", [V2, MESSAGES])
def test_the_new_root_is_counted_and_the_block_that_changed_is_named(lane: Lane) -> None:
    session = clean(lane)
    roots = [node for node in session.view.metadata.tree.nodes if node.parent is None]  # type: ignore[union-attr]
    (note,) = [f for f in session.judged() if f.type == "new_root"]
    assert len(roots) == 2
    assert note.severity is Severity.NOTE
    assert note.turn == 3
    assert note.message.startswith("turn 3 began a new root (2 of 2)")
    assert "message 0 (system)" in note.message
    assert ("block 1" in note.message) is (lane is MESSAGES)
    assert f"{volatile.TIMES[0]!r} became {volatile.TIMES[1]!r}" in note.message


def test_both_conversations_go_on_where_they_were() -> None:
    assert [turn.parent for turn in clean(V2).transcript.turns] == [None, 1, None, 3, 2, 4, 6]


@pytest.mark.parametrize("lane", [V2, MESSAGES])
def test_a_tree_that_overlooks_the_system_prompt_is_caught(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    other_matching(monkeypatch, lambda a, b, matcher: a["role"] == b["role"] == "system" or matcher(a, b))
    assert {"tree:branch", "render:non_assistant_text"} <= driven("volatile-system", lane).hard()


# --- the conversation that is not the active path


@pytest.mark.parametrize("lane", [V2, MESSAGES])
def test_the_other_conversation_is_judged_and_clean(lane: Lane) -> None:
    session = clean(lane)
    assert [[turn.turn for turn in path] for path in others_of(session.transcript)] == [LEFT]
    assert session.transcript.forest is not None
    assert len(session.transcript.forest.body["records"]) == 7  # type: ignore[index, call-overload, arg-type]
    assert session.hard() == set()
    assert not [finding for finding in session.judged() if finding.type == "not_shown"]
    soft = [
        finding.turn for finding in session.judged() if finding.severity is Severity.SOFT and finding.check == "render"
    ]
    assert set(soft) & set(LEFT), "its forced calls are told as those of the active path are"


def found(lane: Lane, alter: Callable[[dict[str, Any]], object]) -> list[Finding]:
    """Hard findings where the last record of the other conversation was altered in what the server showed of it."""
    session = clean(lane)
    forest = copy.deepcopy(session.transcript.forest)
    assert forest is not None
    body: Any = forest.body
    last = session.transcript.turns[4]
    alter(next(record for record in body["records"] if record["response"]["id"] == last.response_id))
    altered = replace(session, transcript=replace(session.transcript, forest=forest))
    return [finding for finding in altered.judged() if finding.severity is Severity.HARD]


def entries(record: dict[str, Any]) -> Any:
    return record["response"]["choices"][0]["meta_info"]["output_token_logprobs"]


def split(record: dict[str, Any]) -> None:
    """Its prompt made again from its text."""
    ids, tokens = record["request"]["input_ids"], measure().tokens
    record["request"]["input_ids"] = tokens.encode(tokens.decode(ids))


def newline_lost(record: dict[str, Any]) -> None:
    """The newline behind the last answer, which the joint has to add."""
    ids, tokens = record["request"]["input_ids"], measure().tokens
    text = tokens.decode(ids)
    at = text.rindex("<|im_end|>\n<|im_start|>user")
    ids[:] = [*ids[: len(tokens.encode(text[at:])) * -1], *tokens.encode(text[at:].replace("\n", "", 1))]


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        (split, "prefix:re_tokenized"),
        (newline_lost, "render:special_token_count"),
        (lambda record: record["request"]["input_ids"].__setitem__(3, 7), "prefix:re_templated"),
        (lambda record: entries(record).pop(), "counts:completion_tokens"),
        (lambda record: entries(record)[0].__setitem__(0, None), "counts:logprobs"),
        (
            lambda record: record["response"]["choices"][0]["message"]["tool_calls"][0]["function"].update(
                arguments='{"location": "Rome"}'
            ),
            "text:call_argument",
        ),
        (lambda record: record["request"]["messages"].pop(), "history:roles"),
        (lambda record: record["request"]["messages"][2].pop("reasoning_content"), "history:replay"),
        (lambda record: record["response"].update(id="other"), "history:records"),
    ],
)
@pytest.mark.parametrize("lane", [V2, MESSAGES])
def test_a_fault_in_the_other_conversation_alone_is_hard_and_names_its_turn(
    lane: Lane, alter: Callable[[dict[str, Any]], object], expected: str
) -> None:
    findings = found(lane, alter)
    assert expected in {f"{finding.check}:{finding.type}" for finding in findings}
    assert {finding.turn for finding in findings} <= set(LEFT)


@pytest.mark.parametrize("lane", [V2, MESSAGES])
def test_a_fault_of_the_engine_in_the_other_conversation_is_hard(lane: Lane) -> None:
    session = driven("volatile-system", lane, faults=[Fault(Kind.USAGE, turn=5)])
    findings = [finding for finding in session.judged() if finding.severity is Severity.HARD]
    assert {(f.check, f.type, f.turn) for f in findings} >= {("counts", "completion_tokens", 5)}
    assert {finding.turn for finding in findings} == {5}


def test_a_server_that_shows_the_active_path_alone_is_told_and_not_failed() -> None:
    session = clean(V2)
    for forest in (Forest(404), Forest(200, session.snapshot)):
        told = replace(session, transcript=replace(session.transcript, forest=forest)).judged()
        (note,) = [finding for finding in told if finding.type == "not_shown"]
        assert note.severity is Severity.NOTE
        assert "the conversation of turns 1, 2, 5 was not judged token by token" in note.message
        assert not [finding for finding in told if finding.severity is Severity.HARD]


def test_what_another_session_or_nothing_readable_is_shown_as_fails() -> None:
    session = clean(V2)
    other = copy.deepcopy(session.snapshot) | {"session_id": "other"}
    told = replace(session, transcript=replace(session.transcript, forest=Forest(200, other))).hard()
    assert told == {"history:session"}
    with pytest.raises(VerificationError, match="view=tree is not what the contract says"):
        replace(session, transcript=replace(session.transcript, forest=Forest(200, {"records": []}))).judged()


def test_judged_again_from_its_file_the_session_has_the_same_findings() -> None:
    session = clean(MESSAGES)
    body = TRANSCRIPT_ADAPTER.dump_json(session.transcript)
    again = replace(session, transcript=TRANSCRIPT_ADAPTER.validate_json(body))
    assert again.transcript.forest == session.transcript.forest
    assert again.judged() == session.judged()


# --- a line


def test_v1_refuses_the_change_and_goes_on_with_the_old_line() -> None:
    session = clean(V1)
    assert session.transcript.driver_events == ["refused"]
    assert [turn.parent for turn in session.transcript.turns] == [None, 1, 2, 3]
    assert session.transcript.forest is None
    assert not [f for f in session.judged() if f.type == "new_root"]


def test_a_line_that_gives_up_every_turn_instead_of_refusing_fails_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MAX_ROLLBACK", 99)
    with pytest.raises(VerificationError, match="answered 200, expected a refusal"):
        driven("volatile-system", V1)


def test_a_refusal_that_loses_a_turn_fails_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    right = linear.Line.position

    def forgetful(self: linear.Line, *request: Any, **known: Any) -> Position:
        try:
            return right(self, *request, **known)
        except Exception:
            self._tip = self._tip.parent if self._tip is not None else None
            raise

    monkeypatch.setattr(linear.Line, "position", forgetful)
    with pytest.raises(VerificationError, match="the refused request changed the session"):
        driven("volatile-system", V1)
