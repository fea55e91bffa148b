"""The order of the actions, for every set of append roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents.schedule import Action, problems, schedule
from runner.base.errors import ConfigurationError
from runner.base.terms import Role
from runner.plan.model import FailureMode

LETTERS = {
    "T": Action.TOOL_RESULT,
    "U": Action.USER_FOLLOWUP,
    "S": Action.SYSTEM_REMINDER,
    "R": Action.ROLLBACK,
    "F": Action.FORCE_FINAL,
    "A": Action.ASSISTANT_INPUT,
}
ROLES = {"T": Role.TOOL, "U": Role.USER, "S": Role.SYSTEM, "A": Role.ASSISTANT}


def written(roles: str, cycles: int) -> str:
    names = {action: letter for letter, action in LETTERS.items()}
    return "".join(names[action] for action in schedule([ROLES[letter] for letter in roles], cycles))


@pytest.mark.parametrize(
    ("roles", "cycles", "expected"),
    [
        ("T", 1, "TRR"),
        ("T", 3, "TRRTRTR"),
        ("TU", 1, "TUTRRF"),
        ("TU", 2, "TUTRRTUTRF"),
        ("TS", 1, "TSRR"),
        ("TS", 2, "TSRRTSR"),
        ("TA", 1, "TRRA"),
        ("TA", 2, "TRRTRA"),
        ("TUS", 1, "TUTSRRF"),
        ("TUA", 2, "TUTRRTUTRFA"),
        ("TSA", 2, "TSRRTSRA"),
        ("TUSA", 1, "TUTSRRFA"),
        ("TUSA", 2, "TUTSRRTUTSRFA"),
        ("TUSA", 3, "TUTSRRTUTSRTUTSRFA"),
    ],
)
def test_the_schedule_follows_from_roles_and_cycles(roles: str, cycles: int, expected: str) -> None:
    assert written(roles, cycles) == expected


@given(st.sets(st.sampled_from(["U", "S", "A"])), st.integers(1, 6))
def test_two_rollbacks_are_adjacent_exactly_once_and_injected_messages_come_last(extra: set[str], cycles: int) -> None:
    text = written("T" + "".join(sorted(extra)), cycles)
    assert text.count("RR") == 1
    assert "RRR" not in text
    assert "A" not in text[:-1]
    assert text.count("A") == ("A" in extra)
    assert text.count("F") == ("U" in extra)


@given(st.sets(st.sampled_from(["U", "S", "A"])))
def test_a_family_without_the_tool_role_is_refused(roles: set[str]) -> None:
    with pytest.raises(ConfigurationError, match="'tool'"):
        schedule([ROLES[letter] for letter in roles], 2)


@pytest.mark.parametrize("cycles", [0, -1])
def test_fewer_than_one_cycle_is_refused(cycles: int) -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        schedule([Role.TOOL], cycles)


def test_append_user_as_failure_mode_needs_the_user_role() -> None:
    assert problems([Role.TOOL, Role.USER], 1, FailureMode.APPEND_USER) == []
    with pytest.raises(ConfigurationError, match="append_user"):
        schedule([Role.TOOL], 1, FailureMode.APPEND_USER)


def test_all_problems_come_in_one_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        schedule([], 0, FailureMode.APPEND_USER)
    assert len(caught.value.problems) == 3
