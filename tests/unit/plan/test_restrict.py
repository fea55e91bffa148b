"""A drive that a person restricts is planned, required and told as such."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings
from runner.base.terms import Lane, Outcome, Role
from runner.plan.build import prepare_plan
from runner.plan.model import Plan, PlannedCell, SystemExpectation
from runner.verdict.gate import decide
from runner.verdict.lines import drive


def planned(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Plan:
    """The plan of qwen3 with these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return prepare_plan(run_id="r", now=datetime(2026, 1, 1, tzinfo=UTC), versions={})[2]


def cell(plan: Plan, lane: Lane) -> PlannedCell:
    return next(one for one in plan.cells if one.lane is lane)


def test_nothing_is_restricted_by_itself_and_both_wire_modes_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(monkeypatch)
    assert not any(one.restricted for one in plan.cells)
    assert {sample.stream for one in plan.cells for sample in one.samples} == {True, False}


@pytest.mark.parametrize(("mode", "stream"), [("never", False), ("always", True)])
def test_one_wire_mode_is_left_and_told(monkeypatch: pytest.MonkeyPatch, mode: str, stream: bool) -> None:
    plan = planned(monkeypatch, STREAM=mode)
    assert {sample.stream for one in plan.cells for sample in one.samples} == {stream}
    assert all(list(one.restricted) == [f"STREAM={mode}"] for one in plan.cells)


def test_roles_that_are_left_out_are_neither_appended_nor_required(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell(planned(monkeypatch, APPEND_ROLES="tool,user"), Lane.V1_OPENAI)
    assert one.append_roles == [Role.TOOL, Role.USER]
    assert one.required_events == ["rollback", "append_user"]
    assert one.restricted == {"APPEND_ROLES=tool,user": "nothing is appended as system, assistant"}


def test_without_the_system_role_the_anthropic_lane_expects_none_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell(planned(monkeypatch, APPEND_ROLES="tool,user,assistant"), Lane.V2_ANTHROPIC)
    assert one.intermediate_system is SystemExpectation.FORBIDDEN
    assert "anthropic_system" not in one.required_events


def test_what_the_family_cannot_append_restricts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not cell(planned(monkeypatch, APPEND_ROLES="tool,user,system,assistant"), Lane.V1_OPENAI).restricted


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("STREAM", "sometimes", "STREAM='sometimes'; allowed: both, always, never"),
        ("APPEND_ROLES", "user", "leaves out 'tool'"),
        ("APPEND_ROLES", "tool,robot", "'robot' is not a role"),
        ("APPEND_ROLES", "tool,tool", "names tool twice"),
    ],
)
def test_a_wrong_restriction_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        load_settings()


def test_every_report_says_what_was_left_out_and_the_line_that_drives_it_again_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(monkeypatch, STREAM="never", APPEND_ROLES="tool,user")
    told = decide(plan, {}).cells[0]
    assert told.outcome is Outcome.INCOMPLETE
    assert list(itertools.islice(told.notes, 2)) == [
        "restricted: nothing is appended as system, assistant (APPEND_ROLES=tool,user)",
        "restricted: no sample streams (STREAM=never)",
    ]
    line = drive(plan, plan.cells[0])
    assert "APPEND_ROLES=tool,user" in line
    assert "STREAM=never" in line
