"""Every scenario that there is, as data: what it is about, where it can run, what a sample of it must show.

A scenario is one script that an agent drives in every lane where it makes sense; `runner.agents.scenarios` has the
scripts under the same names. This module only says what the plan needs, so that gate and oracle can judge a cell from
plan and ledger alone. What must hold in each lane is written for people in docs/verification.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runner.base.terms import Lane, Role, WireFormat
from runner.plan.families import Family

BASELINE = "baseline"

Events = Callable[[Family, Lane], Sequence[str]]
"""Driver events that a sample must show, each as often as it is listed."""


def _none(family: Family, lane: Lane) -> Sequence[str]:
    return ()


def shows(*events: str) -> Events:
    """These events, whatever the family and the lane."""
    return lambda family, lane: events


@dataclass(frozen=True)
class Scenario:
    """One row of the list.

    `about` is one line for people. `refuses` gives the reason for each lane in which the scenario makes no sense;
    `roles` are append roles that the family must have. `events` must be shown by every sample, `once` by at least one
    of the cell. `samples` is the number of sessions where the person asked for none, None for the family's;
    `temperature`, `max_tokens` and `soft` replace the family's (`soft` is the ratio of samples that may differ softly:
    1.0 where a grammar writes the calls). `weight` is the expected time beside a baseline cell of as many samples.
    """

    name: str
    about: str
    refuses: Mapping[Lane, str] = field(default_factory=lambda: MappingProxyType({}))
    roles: frozenset[Role] = frozenset()
    events: Events = _none
    once: Events = _none
    samples: int | None = 1
    temperature: float | None = None
    max_tokens: int | None = None
    soft: float | None = None
    weight: float = 0.5

    def why_not(self, family: Family, lane: Lane) -> str:
        """Why this scenario cannot run in this lane of this family, or an empty string where it can."""
        if lane in self.refuses:
            return self.refuses[lane]
        lacking = sorted(self.roles - set(family.append_roles))
        if lacking:
            return f"the family's template may not append {', '.join(map(repr, lacking))}, which {self.name} needs"
        return ""


def _baseline_events(family: Family, lane: Lane) -> Sequence[str]:
    if lane.wire is WireFormat.OPENAI:
        return ["rollback", *(event for role, event in _ROLE_EVENTS.items() if role in family.append_roles)]
    system = ["anthropic_system"] if family.anthropic_intermediate_system_expectation == "required" else []
    *rounds, last = _ANTHROPIC_ROUNDS
    return [*(event for events in rounds for event in events), *system, *last]


def _baseline_once(family: Family, lane: Lane) -> Sequence[str]:
    return ["append_tool"] if lane.wire is WireFormat.OPENAI else []


_ROLE_EVENTS = {Role.USER: "append_user", Role.SYSTEM: "append_system", Role.ASSISTANT: "append_assistant"}
_ANTHROPIC_ROUNDS = (
    ("anthropic_tool_use", "anthropic_tool_result_string", "anthropic_text"),
    ("anthropic_tool_use", "anthropic_tool_result_list", "anthropic_text"),
    ("anthropic_tool_use", "anthropic_tool_result_string", "anthropic_text"),
)
"""Driver events of the three rounds of an Anthropic sample."""

_ALL = (
    Scenario(
        BASELINE,
        "the whole schedule of the wire: tool results, follow-ups, reminders, rollbacks",
        events=_baseline_events,
        once=_baseline_once,
        samples=None,
        weight=1.0,
    ),
)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
"""By name, in the order in which they are planned."""
