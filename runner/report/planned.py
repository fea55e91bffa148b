"""A plan for people, before anything has run: one line per family and lane, what will not run and why, the sums.

The plan itself is JSON and has everything; nothing is decided here.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.base.terms import Lane
from runner.plan.model import EngineKind, Plan, PlannedCell, PlannedLease

_WIDTH = 140
_MOST_NAMES = 3
"""Scenarios of a lane, or cells with one reason, that are named; the plan has all."""


def planned_table(plan: Plan) -> Table:
    """What runs: family, lane, its scenarios, samples of all of them, session-server workers that they reach."""
    table = Table()
    table.add_column("family", no_wrap=True)
    table.add_column("lane", no_wrap=True)
    table.add_column("scenarios")
    for name in ("samples", "workers"):
        table.add_column(name, justify="right", no_wrap=True)
    for lease in plan.leases:
        for lane in Lane:
            cells = [cell for cell in plan.cells_of(lease.family) if cell.lane is lane and cell.applicable]
            if cells:
                names = _few([cell.scenario for cell in cells])
                table.add_row(lease.family, lane.value, names, str(_samples(cells)), _workers(lease, cells))
    return table


def planned_lines(plan: Plan) -> list[str]:
    """What does not run with its reason, what a person took out of the drive, and the sums."""
    running = [cell for cell in plan.cells if cell.applicable]
    lines = []
    for reason in dict.fromkeys(cell.reason for cell in plan.cells if not cell.applicable):
        names = [str(cell.id) for cell in plan.cells if not cell.applicable and cell.reason == reason]
        lines.append(f"not applicable: {_few(names)}: {reason}")
    taken_out = {what: by for cell in running for by, what in cell.restricted.items()}
    lines += [f"restricted: {what} ({by})" for what, by in taken_out.items()]
    if plan.elsewhere:
        others = sum(map(len, plan.elsewhere.values()))
        lines.append(f"shard {plan.shard}: {others} cells are in the other shards")
    grounds = Counter(_ground(lease) for lease in plan.leases)
    leases = ", ".join(f"{number} on {ground}" for ground, number in grounds.items())
    lines.append(
        f"{len(running)} of {len(plan.cells)} cells run, with {_samples(running)} samples, seed {plan.seed};"
        f" leases: {leases}"
    )
    return lines


def print_planned(plan: Plan, *, stream: TextIO | None = None) -> None:
    """Print the table and the lines under it; to stdout by default."""
    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    console.print(planned_table(plan))
    for line in planned_lines(plan):
        console.print(Text(line))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"{names[0]} and {len(names) - 1} more"


def _samples(cells: Sequence[PlannedCell]) -> int:
    return sum(len(cell.samples) for cell in cells)


def _workers(lease: PlannedLease, cells: Sequence[PlannedCell]) -> str:
    reached = len({sample.worker for cell in cells for sample in cell.samples})
    return str(reached) if reached == lease.workers else f"{reached} of {lease.workers}"


def _ground(lease: PlannedLease) -> str:
    if lease.urls:
        return "servers that already run"
    if lease.gpus:
        return f"{lease.gpus} GPU{'s' * (lease.gpus > 1)}"
    return "the CPU" if lease.engine is EngineKind.CPU else f"the {lease.engine} engine"
