"""What a person takes out of the drive, for a server that promises less: roles to append, a wire mode.

A restricted cell is driven and judged as one of a family that has only what is left; what was taken out stays in the
plan in words, from where every report has it. A pass of a restricted cell is a pass of what was driven.
"""

from __future__ import annotations

from runner.base.settings import Settings, StreamMode
from runner.base.terms import Role
from runner.plan.families import Family
from runner.plan.model import FailureMode, SystemExpectation


def restricted(settings: Settings, family: Family) -> Family:
    """The family with the append roles that are left, and without what asked for the others."""
    if settings.append_roles is None:
        return family
    roles = [role for role in family.append_roles if role in settings.append_roles]
    changes: dict[str, object] = {"append_roles": roles}
    if family.failure_mode is FailureMode.APPEND_USER and Role.USER not in roles:
        changes["failure_mode"] = FailureMode.ROLLBACK
    if family.anthropic_intermediate_system_expectation and Role.SYSTEM not in roles:
        changes["anthropic_intermediate_system_expectation"] = SystemExpectation.FORBIDDEN
    return family.model_copy(update=changes)


def restrictions(settings: Settings, family: Family) -> dict[str, str]:
    """What was taken out of this family's drive: the variable that did, `NAME=value`, -> what, in words."""
    found = {}
    left = restricted(settings, family).append_roles
    lost = [role for role in family.append_roles if role not in left]
    if lost:
        found[f"APPEND_ROLES={','.join(left)}"] = f"nothing is appended as {', '.join(lost)}"
    if settings.stream is not StreamMode.BOTH:
        missing = "streams" if settings.stream is StreamMode.NEVER else "asks for a whole reply"
        found[f"STREAM={settings.stream}"] = f"no sample {missing}"
    return found


def streams(settings: Settings, turn: int) -> bool:
    """Whether the sample with this number asks for a streamed reply; every other one does where both modes occur."""
    return {StreamMode.ALWAYS: True, StreamMode.NEVER: False}.get(settings.stream, turn % 2 == 0)
