"""Where the time went, from the clocks of the ledgers: per lane, for all lanes together, and for the steps of a lease.

A measurement, never a reason: no outcome depends on it. A figure whose beginning or end was not recorded is left out
instead of guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from runner.base.terms import Lane
from runner.ledger.reader import Ledger
from runner.ledger.records import Body, PhaseRecord, RecreatedRecord
from runner.ledger.timeline import in_order, span
from runner.verdict.model import CellVerdict, LaneTiming, LeaseTiming, Phase, Span

STARTING, UP, VERIFIED, COLLECTING, REMOVING = "starting", "up", "verified", "collecting", "removing"
"""The steps of a lease that the figures are computed from, as its host names them."""
INTERRUPTED = "interrupted"
"""The step that its host writes of a lease that was not done when the run was interrupted."""


def wall(ledgers: Sequence[Ledger]) -> Span | None:
    """From the first to the last line of these ledgers."""
    found = span(ledgers)
    return between(*found) if found else None


def between(begin: datetime, end: datetime) -> Span:
    """The span from `begin` to `end`."""
    return Span(started_at=begin, ended_at=end, seconds=(end - begin).total_seconds())


def around(spans: Iterable[Span | None]) -> Span | None:
    """The shortest span that holds all of these, or None where there are none."""
    known = [one for one in spans if one is not None]
    if not known:
        return None
    return between(min(one.started_at for one in known), max(one.ended_at for one in known))


def was_interrupted(ledgers: Sequence[Ledger]) -> bool:
    """Whether these ledgers of a lease say that the run was interrupted before the lease was done."""
    return any(
        isinstance(record, PhaseRecord) and record.phase == INTERRUPTED for one in ledgers for record in one.records
    )


def lease_timing(family: str, cells: Sequence[CellVerdict], ledgers: Sequence[Ledger]) -> LeaseTiming:
    """The figures of one lease, from the verdicts on its cells and the ledgers of the host."""
    lanes = []
    for lane in Lane:
        mine = [cell for cell in cells if cell.lane is lane]
        whole = around(cell.wall for cell in mine)
        if whole:
            lanes.append(LaneTiming(lane=lane, wall=whole, sample_seconds=sum(cell.seconds for cell in mine)))
    records = _last_try(in_order(ledgers))
    phases = [
        Phase(phase=record.phase, detail=record.detail, at=record.at, seconds=record.seconds)
        for record in records
        if record.at is not None
    ]
    whole = wall(ledgers)
    first = _first(phases)
    ended = first.get(VERIFIED) or first.get(COLLECTING)
    return LeaseTiming(
        family=family,
        wall=whole,
        boot_seconds=_seconds(first.get(STARTING), first.get(UP)),
        verify_seconds=_seconds(first.get(UP), ended),
        collect_seconds=_seconds(first.get(COLLECTING), first.get(REMOVING)),
        remove_seconds=_seconds(first.get(REMOVING), whole.ended_at if whole else None),
        together=around(lane.wall for lane in lanes),
        lanes=lanes,
        phases=phases,
    )


def _last_try(records: Sequence[Body]) -> list[PhaseRecord]:
    """The steps since the lease was last created: those before belong to a try that was given up."""
    begin = max((index for index, record in enumerate(records) if isinstance(record, RecreatedRecord)), default=-1)
    return [record for record in records[begin + 1 :] if isinstance(record, PhaseRecord)]


def _first(phases: Sequence[Phase]) -> Mapping[str, datetime]:
    """When each step was first said."""
    return {phase.phase: phase.at for phase in reversed(phases)}


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return (end - begin).total_seconds() if begin and end else None
