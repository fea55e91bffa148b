"""Every scenario that there is, as data: what it is about, where it can run, what a sample of it must show.

A scenario is one script that an agent drives in every lane where it makes sense; `runner.agents.scenarios` has the
scripts under the same names. This module only says what the plan needs, so that gate and oracle can judge a cell from
plan and ledger alone. What must hold in each lane is written for people in docs/verification.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from runner.base.terms import Lane, Role, ServerVersion, WireFormat
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
    `beside` gives the lane whose server is driven as well, where a script compares two.
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
    beside: Mapping[Lane, Lane] = field(default_factory=lambda: MappingProxyType({}))

    def why_not(self, family: Family, lane: Lane) -> str:
        """Why this scenario cannot run in this lane of this family, or an empty string where it can."""
        if lane in self.refuses:
            return self.refuses[lane]
        lacking = sorted(role.value for role in self.roles - set(family.append_roles))
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

PAIR_PARSERS = frozenset({"qwen25"})
"""Tool-call parsers whose syntax of calls `parallel-tools` knows, so that two calls in one turn can be sampled."""


def samples_pairs(family: Family, lane: Lane) -> bool:
    """Whether two calls in one turn can be sampled: the engine is held to a pattern, which one wire has a word for."""
    return lane.wire is WireFormat.OPENAI and family.tool_call_parser in PAIR_PARSERS


def _parallel_events(family: Family, lane: Lane) -> Sequence[str]:
    authored = ["parallel_authored", "parallel_results"] * 2
    return [*authored, "parallel_sampled", "parallel_results"] if samples_pairs(family, lane) else authored


def _volatile_events(family: Family, lane: Lane) -> Sequence[str]:
    return ["refused"] if lane.server is ServerVersion.V1 else ["new_root", "old_root"]


_NO_MARKS = "cache_control is a field of the Anthropic wire; a chat completion has no marks that could move"
_DIALOGUE = frozenset({Role.USER, Role.TOOL})

_ALL = (
    Scenario(
        BASELINE,
        "the whole schedule of the wire: tool results, follow-ups, reminders, rollbacks",
        events=_baseline_events,
        once=_baseline_once,
        samples=None,
        weight=1.0,
    ),
    Scenario(
        "parallel-tools",
        "two tool calls in one assistant turn, answered by two results in a row",
        roles=_DIALOGUE | {Role.ASSISTANT},
        events=_parallel_events,
    ),
    Scenario(
        "arguments",
        "tool arguments with several lines, quotes, other scripts and the end-of-thinking tag",
        roles=_DIALOGUE,
        events=shows("hard_arguments", "hard_arguments"),
        soft=1.0,
    ),
    Scenario(
        "list-content",
        "content as lists of text parts, tool results included: the prompt of the plain text",
        roles=_DIALOGUE,
        events=shows("list_user", "list_result", "list_user", "list_result"),
        soft=1.0,
    ),
    Scenario(
        "volatile-system",
        "a line of the system prompt changes: a new root in v2, a refusal in v1",
        roles=_DIALOGUE,
        events=_volatile_events,
        soft=1.0,
    ),
    Scenario(
        "cache-control",
        "cache_control marks that move with every turn take no part in comparing",
        refuses=MappingProxyType({Lane.V1_OPENAI: _NO_MARKS, Lane.V2_OPENAI: _NO_MARKS}),
        roles=_DIALOGUE,
        events=shows("cache_mark", "cache_mark", "cache_mark", "cache_mark"),
        soft=1.0,
    ),
    Scenario(
        "max-tokens",
        "a forced call under budgets of 16 to 200 tokens: a full budget is never a finished call",
        roles=_DIALOGUE,
        events=shows("cut", "refused", "whole"),
        samples=2,
        soft=1.0,
    ),
    Scenario(
        "concurrent",
        "several turns of one session at the same time: what is answered 200 is recorded",
        roles=_DIALOGUE,
        events=shows("overlap"),
        soft=1.0,
    ),
    Scenario(
        "reply-lost",
        "the reply is lost on its way, and the shorter history is sent again",
        roles=_DIALOGUE,
        events=shows("reply_lost", "reply_lost", "left_waiting"),
        soft=1.0,
    ),
    Scenario(
        "identical",
        "equal requests, one after the other: each is sampled afresh",
        roles=_DIALOGUE,
        events=shows(*["repeated"] * 4),
        soft=1.0,
    ),
    Scenario(
        "interrupted-stream",
        "the client closes the stream in its middle and asks again; a session is closed under a running turn",
        roles=_DIALOGUE,
        events=shows("interrupted", "left_waiting", "deleted_in_flight"),
        soft=1.0,
    ),
    Scenario(
        "differential",
        "the same script driven two ways at temperature 0: v2 beside v1, the Anthropic wire beside the OpenAI one",
        refuses=MappingProxyType({Lane.V1_OPENAI: "it is the reference that the other lanes are compared with"}),
        roles=_DIALOGUE,
        events=shows("compared"),
        temperature=0.0,
        soft=1.0,
        weight=1.0,
        beside=MappingProxyType({Lane.V2_OPENAI: Lane.V1_OPENAI, Lane.V2_ANTHROPIC: Lane.V2_OPENAI}),
    ),
)

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})
"""By name, in the order in which they are planned."""
