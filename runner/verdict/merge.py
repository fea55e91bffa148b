"""One verdict of the shards of one plan. Pure; finding and copying their artifacts is done elsewhere.

Shards belong together when everything that is the same for a whole run is the same in their plans, and when each holds
the cells that the others expect of it. A shard that is not there leaves its cells unknown: the merged run is incomplete
and says which one it is and what it would have held, every cell of it by name; it can not be a pass.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.base.errors import ConfigurationError
from runner.base.terms import CellId, Outcome
from runner.plan.model import Plan
from runner.verdict.gate import exit_code
from runner.verdict.model import CellVerdict, Reason, Rule, Shard, Verdict


@dataclass(frozen=True)
class Part:
    """One shard's run. `directory` is where its artifacts lie below those of the merged run."""

    directory: str
    plan: Plan
    verdict: Verdict

    @property
    def index(self) -> int:
        """i of shard i/n."""
        return int(self.plan.shard.split("/")[0])


def merge(parts: Sequence[Part]) -> tuple[Plan, Verdict]:
    """Plan and verdict of all shards together, in the order of the shards.

    Raises:
        ConfigurationError: the plans do not belong together; every problem is named.
    """
    problems = conflicts([part.plan for part in parts])
    if problems:
        raise ConfigurationError(problems)
    parts = sorted(parts, key=lambda part: part.index)
    plans = [part.plan for part in parts]
    run_id = _run_id(plans)
    absent = missing(plans)
    plan = plans[0].model_copy(
        update={
            "run_id": run_id,
            "shard": "1/1",
            "elsewhere": {shard: plans[0].elsewhere.get(shard, []) for shard in absent},
            "created_at": min(plan.created_at for plan in plans),
            "leases": [lease for plan in plans for lease in plan.leases],
            "cells": [cell for plan in plans for cell in plan.cells],
        }
    )
    lacking = [_lacking(shard, cells) for shard, cells in plan.elsewhere.items()]
    told = [f"shard {part.plan.shard}: {problem}" for part in parts for problem in part.verdict.problems]
    cells = [
        cell.model_copy(update={"artifacts": f"{part.directory}/{cell.artifacts}"})
        for part in parts
        for cell in part.verdict.cells
    ]
    cells += [_unknown(cell, shard) for shard, names in plan.elsewhere.items() for cell in names]
    found = [*lacking, *told]
    differ = [f"shard {part.plan.shard}: {said}" for part in parts for said in part.verdict.differences]
    verdict = Verdict(
        run_id=run_id,
        exit_code=exit_code(cells, [*found, *differ]),
        interrupted=any(part.verdict.interrupted for part in parts),
        problems=found,
        differences=differ,
        cells=cells,
        leases=[lease for part in parts for lease in part.verdict.leases],
        engines=[facts for part in parts for facts in part.verdict.engines],
        shards=[Shard(shard=p.plan.shard, run_id=p.plan.run_id, directory=p.directory) for p in parts],
    )
    return plan, verdict


def _lacking(shard: str, cells: Sequence[str]) -> str:
    lanes: dict[str, int] = Counter(CellId.parse(cell).family for cell in cells)
    held = ", ".join(f"{family} ({number} cell{'s' * (number > 1)})" for family, number in lanes.items())
    what = f"its {len(cells)} cells are" if cells else "its cells are"
    return f"shard {shard} is missing: none of the merged runs is it, and {what} not accounted for" + (
        f": {held}; run it with SHARD={shard} and merge again" if held else ""
    )


def _unknown(name: str, shard: str) -> CellVerdict:
    """A cell of a shard that is not there."""
    cell = CellId.parse(name)
    return CellVerdict(
        cell=name,
        family=cell.family,
        lane=cell.lane,
        scenario=cell.scenario,
        outcome=Outcome.INCOMPLETE,
        failed=False,
        reasons=[Reason(rule=Rule.EVIDENCE, message=f"it belongs to shard {shard}, which is missing")],
    )


def missing(plans: Sequence[Plan]) -> list[str]:
    """The shards, as i/n, that none of these plans is."""
    count = _count(plans[0])
    present = {plan.shard for plan in plans}
    return [shard for index in range(1, count + 1) if (shard := f"{index}/{count}") not in present]


def conflicts(plans: Sequence[Plan]) -> list[str]:
    """Why these plans are not the shards of one run; empty when they are."""
    if not plans:
        return ["no run is given to merge"]
    problems = []
    for shard, number in Counter(plan.shard for plan in plans).items():
        if number > 1:
            twice = ", ".join(plan.run_id for plan in plans if plan.shard == shard)
            problems.append(f"shard {shard} is there {number} times: runs {twice}")
    for what, value in _SAME.items():
        values: dict[str, list[str]] = {}
        for plan in plans:
            for said in value(plan):
                values.setdefault(said, []).append(plan.run_id)
        if len(values) > 1:
            said = "; ".join(f"{shown} in {', '.join(dict.fromkeys(runs))}" for shown, runs in values.items())
            problems.append(f"{what} is not the same: {said}")
    problems += _unexpected(plans)
    owners: dict[str, list[str]] = {}
    for plan in plans:
        for cell in plan.cells:
            owners.setdefault(str(cell.id), []).append(plan.shard)
    for name, shards in owners.items():
        if len(set(shards)) > 1:
            problems.append(f"cell {name} is planned in the shards {', '.join(shards)}; each cell belongs to one")
    return problems


def _unexpected(plans: Sequence[Plan]) -> list[str]:
    """What one shard holds and another does not expect of it: they were cut from different plans."""
    problems = []
    for plan in plans:
        for other in plans:
            expected = other.elsewhere.get(plan.shard)
            held = [str(cell.id) for cell in plan.cells]
            if expected is not None and expected != held:
                differ = ", ".join(sorted(set(expected) ^ set(held))) or "the order of the cells"
                problems.append(
                    f"shard {plan.shard} (run {plan.run_id}) is not the part that run {other.run_id} knows, which was"
                    f" planned with other FAMILY, LANES, SCENARIOS or CELL: {differ}"
                )
                break
    return problems


_OF_THE_MACHINE = frozenset({"python"})
"""Versions of the machine that ran a shard; what is verified runs in containers."""


def _versions(plan: Plan) -> list[str]:
    same = [f"{name} {version}" for name, version in sorted(plan.versions.items()) if name not in _OF_THE_MACHINE]
    return [", ".join(same) or "none"]


_SAME: dict[str, Callable[[Plan], list[str]]] = {
    "the number of shards": lambda plan: [str(_count(plan))],
    "SEED": lambda plan: [str(plan.seed)],
    "TIMEOUT": lambda plan: [f"{plan.timeout:g}"],
    "STALL_TIMEOUT": lambda plan: [f"{plan.stall_timeout:g}"],
    "ENGINE": lambda plan: [lease.engine.value for lease in plan.leases],
    "WORKERS": lambda plan: [str(lease.workers) for lease in plan.leases],
    "versions": _versions,
}
"""What is the same for a whole run, whatever its families are. A plan without a lease says nothing about engines."""


def _count(plan: Plan) -> int:
    return int(plan.shard.split("/")[1])


def _run_id(plans: Sequence[Plan]) -> str:
    """The same for the same runs, whatever their order on the command line was."""
    names = "\n".join(sorted(plan.run_id for plan in plans))
    return f"merged-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
