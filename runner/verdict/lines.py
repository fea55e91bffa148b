"""The one line that runs a recorded cell again. Built from the plan alone, so that it can be printed for any run."""

from __future__ import annotations

import shlex

from runner.plan.model import EngineKind, Plan, PlannedCell


def reproduce(plan: Plan, cell: PlannedCell) -> str:
    """A make command with everything that the plan fixed for this cell.

    Seeds of the samples follow from run seed, cell and index, so that the same line drives the same requests. Whether
    the engine then samples the same tokens is the engine's business; not every backend honours a seed.
    """
    lease = next((lease for lease in plan.leases if lease.family == cell.family), None)
    values = [
        ("CELL", str(cell.id)),
        ("SEED", str(plan.seed)),
        ("SAMPLES", str(len(cell.samples))),
        ("CYCLES", str(cell.cycles)),
    ]
    if lease and lease.engine is not EngineKind.CPU:
        values.append(("ENGINE", lease.engine.value))
    return "make e2e " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values)
