"""How long a family is expected to take, roughly. Only compared: it balances shards and orders leases.

Never a time-out and never a promise: engine start is taken as a fixed part of its budget, a turn by the size of its
response budget. The same plan gives the same numbers on every machine, so that all shards agree on who does what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.base.settings import EngineKind
from runner.base.terms import WireFormat
from runner.plan.model import PlannedCell, PlannedLease

_START_SHARE = 0.25
"""Part of the start budget that a start usually takes."""

_AT_ONCE = 4
"""Samples of a cell that are driven at the same time."""

_TOKENS_PER_SECOND = {EngineKind.CPU: 80.0, EngineKind.GPU: 800.0, EngineKind.SCRIPTED: 8000.0}
_TURNS_PER_CYCLE = 6
_ANTHROPIC_TURNS = 10


def lease_seconds(lease: PlannedLease, cells: Sequence[PlannedCell]) -> float:
    """Expected seconds of one lease: its lanes share the engine and run at the same time."""
    rate = _TOKENS_PER_SECOND[lease.engine]
    turns = sum(cell.weight * _waves(cell) * _turns(cell) * cell.max_tokens for cell in cells if cell.applicable)
    return lease.ready_timeout * _START_SHARE + turns / rate


def _waves(cell: PlannedCell) -> int:
    return -(-len(cell.samples) // _AT_ONCE)


def _turns(cell: PlannedCell) -> int:
    return _ANTHROPIC_TURNS if cell.lane.wire is WireFormat.ANTHROPIC else _TURNS_PER_CYCLE * cell.cycles + 2


def balanced(seconds: Mapping[str, float], parts: int) -> list[list[str]]:
    """Deal names out to `parts` lists so that the sums of their seconds are close: longest first, to the least loaded.

    Deterministic: equal times go by the order of `seconds`, equal loads to the first part. No part stays empty where
    there are at least as many names as parts, because every time is more than 0.
    """
    loads = [0.0] * parts
    dealt: list[list[str]] = [[] for _ in range(parts)]
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        least = loads.index(min(loads))
        loads[least] += seconds[name]
        dealt[least].append(name)
    return dealt
