"""New roots are told with the block that changed; a conversation that goes on, and one that is repeated, have none."""

from __future__ import annotations

from typing import Any

import pytest

from runner.agents.transcript import Transcript, TurnLog
from runner.base.terms import WireFormat
from runner.oracle.finding import Severity
from runner.oracle.roots import check_roots

USER: dict[str, Any] = {"role": "user", "content": "What's the weather?"}


def told(*begun: tuple[int | None, list[dict[str, Any]]]) -> list[str]:
    """What is said of turns with these parents and messages."""
    turns = [
        TurnLog(
            number, "text", parent, messages, {"role": "assistant", "content": "x"}, f"r{number}", "stop", 1, 1, 0.1
        )
        for number, (parent, messages) in enumerate(begun, start=1)
    ]
    findings = check_roots(Transcript(WireFormat.OPENAI, False, 1, turns=turns))
    assert all(f.severity is Severity.NOTE and f.check == "tree" and f.type == "new_root" for f in findings)
    return [finding.message for finding in findings]


def system(content: Any) -> dict[str, Any]:
    return {"role": "system", "content": content}


def texts(*parts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": part} for part in parts]


def test_a_conversation_that_goes_on_and_one_that_is_repeated_are_not_told() -> None:
    first = [system("Help."), USER]
    assert told((None, first), (1, [*first, USER])) == []
    assert told((None, first), (None, first), (None, list(first))) == []


def test_the_line_that_changed_is_shown_and_roots_are_counted() -> None:
    messages = told(
        (None, [system("Help.\nTime: 10:01."), USER]),
        (1, [system("Help.\nTime: 10:01."), USER, USER]),
        (None, [system("Help.\nTime: 10:02."), USER, USER]),
        (None, [system("Help.\nTime: 10:03."), USER, USER]),
    )
    assert [message.split(",")[0] for message in messages] == [
        "turn 3 began a new root (2 of 3)",
        "turn 4 began a new root (3 of 3)",
    ]
    assert "message 0 (system), from character 16 on: 'Time: 10:01.' became 'Time: 10:02.'" in messages[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (texts("Help.", "10:01"), texts("Help.", "10:02"), "message 0 (system), block 1, from character 4 on"),
        (texts("Help."), texts("Help.", "More."), "message 0 (system): number of blocks 1 became 2"),
        ("x" * 500 + "a", "x" * 500 + "b", "from character 500 on: '" + "x" * 40 + "a' became"),
        ("Help", "Help more", "from character 4 on: 'Help' became 'Help more'"),
    ],
)
def test_the_place_is_named_as_exactly_as_it_can_be(old: Any, new: Any, said: str) -> None:
    (message,) = told((None, [system(old), USER]), (None, [system(new), USER]))
    assert said in message


def test_another_message_and_another_role_are_named_too() -> None:
    (message,) = told((None, [system("a"), USER]), (None, [system("a"), {"role": "user", "content": "What else?"}]))
    assert "message 1 (user), from character 4 on" in message
    (message,) = told((None, [system("a"), USER]), (None, [{"role": "user", "content": "a"}, USER]))
    assert "message 0 (user) was one of system" in message
    (message,) = told((None, [system("a"), USER]), (None, [system("a")]))
    assert "number of messages 2 became 1" in message
