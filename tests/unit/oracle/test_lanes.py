"""The oracle on the lanes of a v2 server: clean sessions, the tree, and the Anthropic conversation as chat records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.oracle.canonical import canonical
from runner.oracle.finding import Severity
from tests.unit.oracle.conftest import Case

Snapshot = dict[str, Any]


def hard(case: Case, alter: Callable[[Snapshot], object] | None = None) -> set[str]:
    return {f"{f.check}:{f.type}" for f in case.judged(alter) if f.severity is Severity.HARD}


def test_clean_sessions_of_both_wires_have_no_hard_finding(grown: Case, messages: Case) -> None:
    assert grown.judged() == []
    assert hard(messages) == set()


def test_forced_calls_are_the_only_soft_findings_of_a_clean_anthropic_session(messages: Case) -> None:
    """The grammar writes a forced call without the template's spacing: three forced calls, three mismatches."""
    from_server = [finding for finding in messages.judged() if finding.check == "server"]
    assert [finding.type for finding in from_server] == ["assistant_text"] * 3


def test_a_session_without_a_tree_is_no_v2_session(grown: Case) -> None:
    assert hard(grown, lambda s: s["metadata"].pop("tree")) == {"tree:absent"}


def request(snapshot: Snapshot, index: int) -> Any:
    return snapshot["records"][index]["request"]["messages"]


def choice(snapshot: Snapshot, index: int) -> Any:
    return snapshot["records"][index]["response"]["choices"][0]


def stored(snapshot: Snapshot, index: int) -> Any:
    return choice(snapshot, index)["message"]


CASES: list[tuple[str, Callable[[Snapshot], object], str]] = [
    ("reasoning lost on replay", lambda s: request(s, 2)[2].pop("reasoning_content"), "history:message"),
    ("thinking became text", lambda s: request(s, 2)[4].update(content="x", reasoning_content=None), "history:replay"),
    ("calls lost on replay", lambda s: request(s, 2)[2].pop("tool_calls"), "history:replay"),
    ("call id changed", lambda s: request(s, 2)[2]["tool_calls"][0].update(id="x"), "history:message"),
    ("arguments changed", lambda s: call(request(s, 2)[2]).update(arguments='{"location": "Rome"}'), "history:message"),
    ("name changed", lambda s: call(request(s, 2)[2]).update(name="x"), "history:message"),
    ("result lost", lambda s: request(s, 2)[3].update(content=""), "history:message"),
    ("result for another call", lambda s: request(s, 2)[3].update(tool_call_id="x"), "history:message"),
    ("system message folded away", lambda s: request(s, 5).pop(9), "history:roles"),
    ("system prompt changed", lambda s: request(s, 5)[0].update(content="x"), "history:message"),
    ("list content not joined", lambda s: request(s, 4)[7].update(content=[{"type": "text"}] * 2), "history:message"),
    ("stored call changed", lambda s: call(stored(s, 0)).update(arguments='{"location": "Rome"}'), "history:reply"),
    ("stored calls lost", lambda s: stored(s, 0).pop("tool_calls"), "history:reply"),
    ("stored thinking changed", lambda s: stored(s, 0).update(reasoning_content="x"), "history:reply"),
    ("finish reason changed", lambda s: choice(s, 0).update(finish_reason="stop"), "history:finish_reason"),
    ("not stored as chat record", lambda s: s["records"][0].update(path="/v1/messages"), "history:record"),
    ("a turn lost", lambda s: s["records"].pop(2), "history:records"),
]  # fmt: skip


def call(message: Any) -> Any:
    return message["tool_calls"][0]["function"]


@pytest.mark.parametrize(("alter", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_fault_of_an_anthropic_history_is_found(
    messages: Case, alter: Callable[[Snapshot], object], expected: str
) -> None:
    assert expected in hard(messages, alter)


def test_arguments_may_be_written_anew_and_one_text_part_is_its_text(messages: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        for index in range(1, 6):
            call(request(snapshot, index)[2])["arguments"] = '{"location":"Beijing"}'
            request(snapshot, index)[1]["content"] = [{"type": "text", "text": "What's the weather in Beijing?"}]

    assert hard(messages, alter) == set()


def test_on_the_openai_wire_a_text_part_is_not_its_text(grown: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        request(snapshot, 0)[1]["content"] = [{"type": "text", "text": request(snapshot, 0)[1]["content"]}]

    assert hard(grown, alter) == {"history:message"}


def test_the_order_within_a_user_message_is_kept(messages: Case) -> None:
    turn = messages.transcript.turns[0]
    parts = [
        {"type": "text", "text": "before"},
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}]},
        {"type": "text", "text": "after"},
    ]
    body = type(turn)(**{**turn.__dict__, "messages": [{"role": "user", "content": parts}]})
    assert canonical(body).messages == [
        {"role": "user", "content": "before"},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "after"},
    ]
