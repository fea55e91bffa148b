"""The one line that runs a cell again: from its recorded run where that is whole, else from the plan alone."""

from __future__ import annotations

import shlex
from urllib.parse import urlsplit

from runner.plan.model import EngineKind, Plan, PlannedCell, PlannedLease


def repeat(run: str, cell: PlannedCell) -> str:
    """A make command that starts the cell again from its record: same images by id, seeds and settings.

    `run` is the directory of the run that has the record; in a merged run that is the shard's.
    """
    return _make("repro", [("RUN", run), ("CELL", str(cell.id))])


def drive(plan: Plan, cell: PlannedCell) -> str:
    """A make command with everything that the plan fixed for this cell; the images are those of the checkout.

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
    urls = lasting(lease) if lease else {}
    if lease and urls:
        values += [(f"{service.upper().replace('-', '_')}_URL", url) for service, url in urls.items()]
        values.append(("TOKENIZER", lease.tokenizer))
    elif lease and lease.engine is not EngineKind.CPU:
        values.append(("ENGINE", lease.engine.value))
    for assignment in cell.restricted:
        name, _, value = assignment.partition("=")
        values.append((name, value))
    if lease and lease.workers > 1:
        values.append(("WORKERS", str(lease.workers)))
    return _make("e2e", values)


def lasting(lease: PlannedLease) -> dict[str, str]:
    """The servers of a lease that can be asked again: one that is named as its service was in a pod, and is gone."""
    return {service: url for service, url in lease.urls.items() if urlsplit(url).hostname != service}


def _make(target: str, values: list[tuple[str, str]]) -> str:
    return f"make {target} " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values)
