"""The order of a conversation, as data: which actions follow from a family's append roles and a number of cycles.

Pure, so that plan, agent and tests can all ask. It says what will be tried, not what happened: a `tool_result` step may
find no tool call and become the family's failure mode (docs/verification.md, "The OpenAI agent").
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from runner.base.errors import ConfigurationError
from runner.base.terms import Role
from runner.plan.model import FailureMode


class Action(StrEnum):
    """What happens between two requests. `start` is the first request, which nothing precedes."""

    START = "start"
    TOOL_RESULT = "tool_result"
    USER_FOLLOWUP = "user_followup"
    SYSTEM_REMINDER = "system_reminder"
    ASSISTANT_INPUT = "assistant_input"
    ROLLBACK = "rollback"
    FORCE_FINAL = "force_final"


class DriverEvent(StrEnum):
    """What an OpenAI conversation went through; the gate asks for these names."""

    APPEND_TOOL = "append_tool"
    APPEND_USER = "append_user"
    APPEND_SYSTEM = "append_system"
    APPEND_ASSISTANT = "append_assistant"
    ROLLBACK = "rollback"
    FORCE_FINAL = "force_final"
    FAILURE_ROLLBACK = "tool_call_failure_rollback"
    FAILURE_APPEND_TOOL = "tool_call_failure_append_tool"
    FAILURE_APPEND_USER = "tool_call_failure_append_user"


def problems(roles: Collection[Role], cycles: int, failure_mode: FailureMode) -> list[str]:
    """Why this conversation cannot be had; empty when it can."""
    found: list[str] = []
    if Role.TOOL not in roles:
        allowed = ", ".join(sorted(roles)) or "none"
        found.append(f"append roles are {allowed}: a family that may not append 'tool' cannot be verified with tools")
    if cycles < 1:
        found.append(f"cycles is {cycles}; at least 1 is needed")
    if failure_mode is FailureMode.APPEND_USER and Role.USER not in roles:
        found.append("failure mode append_user needs the append role 'user', which this family does not have")
    return found


def schedule(roles: Collection[Role], cycles: int, failure_mode: FailureMode = FailureMode.ROLLBACK) -> list[Action]:
    """The actions after the first request: one request follows each.

    One cycle, one more rollback (two adjacent rollbacks, which repeating a cycle never gives), the other cycles, then
    `force_final` when *user* may be appended and `assistant_input`, always last, when *assistant* may.

    Raises ConfigurationError with every problem when the roles, cycles or failure mode do not fit.
    """
    wrong = problems(roles, cycles, failure_mode)
    if wrong:
        raise ConfigurationError(wrong)
    cycle = [Action.TOOL_RESULT]
    if Role.USER in roles:
        cycle += [Action.USER_FOLLOWUP, Action.TOOL_RESULT]
    if Role.SYSTEM in roles:
        cycle.append(Action.SYSTEM_REMINDER)
    cycle.append(Action.ROLLBACK)
    actions = [*cycle, Action.ROLLBACK, *(cycle * (cycles - 1))]
    if Role.USER in roles:
        actions.append(Action.FORCE_FINAL)
    if Role.ASSISTANT in roles:
        actions.append(Action.ASSISTANT_INPUT)
    return actions
