"""Where the time went, as bars on one axis: positions in per cent, so that the page draws them without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from runner.report.text import duration, times
from runner.report.turns import Session
from runner.verdict.model import CellVerdict, LeaseTiming, SampleVerdict, Span
from runner.verdict.timing import around, between


@dataclass(frozen=True)
class Bar:
    """One bar. `left` and `width` are per cent of the axis; `tone` is its colour, `title` what hovering shows."""

    left: float
    width: float
    tone: str
    title: str


@dataclass(frozen=True)
class Lane:
    """One line of the chart."""

    name: str
    seconds: float
    bars: list[Bar] = field(default_factory=list)


@dataclass(frozen=True)
class Chart:
    """The time of one lease."""

    family: str
    seconds: float
    lanes: list[Lane]
    figures: list[tuple[str, str]]
    """Name and duration, for the line above the chart."""


_STEPS = (("boot", "starting", "up"), ("verify", "up", "verified"), ("collect", "collecting", "removing"))


def lease_chart(lease: LeaseTiming, cells: Sequence[CellVerdict]) -> Chart | None:
    """The chart of one lease, None where nothing of it has a time."""
    axis = around([lease.wall, lease.together])
    if axis is None or not axis.seconds:
        return None
    first = {phase.phase: phase.at for phase in reversed(lease.phases)}
    spans: list[tuple[str, Span, str]] = [
        (name, between(first[begin], first[end]), "step")
        for name, begin, end in _STEPS
        if begin in first and end in first and first[begin] <= first[end]
    ]
    lines = [Lane(name, span.seconds, [_bar(axis, span, tone, name)]) for name, span, tone in spans]
    driven = []
    for lane in lease.lanes:
        mine = [cell for cell in cells if cell.lane is lane.lane and cell.wall]
        bars = [_bar(axis, cell.wall, "bad" if cell.failed else "lane", cell.cell) for cell in mine if cell.wall]
        driven.append(Lane(lane.lane.value, lane.wall.seconds, bars))
    # In the order in which things happened: what is driven lies between boot and collecting.
    place = sum(line.name in ("boot", "verify") for line in lines)
    return Chart(lease.family, axis.seconds, [*lines[:place], *driven, *lines[place:]], times(lease))


def turn_bars(cell: CellVerdict, sample: SampleVerdict, session: Session) -> list[Bar]:
    """One sample on the time axis of its cell: a bar per turn, or one for all where the turns are not known."""
    if cell.wall is None or not cell.wall.seconds or sample.ended_at is None or not sample.seconds:
        return []
    begin = (sample.ended_at - cell.wall.started_at).total_seconds() - sample.seconds
    scale = 100 / cell.wall.seconds
    if not session.turns:
        return [Bar(max(0.0, begin) * scale, sample.seconds * scale, "turn", duration(sample.seconds))]
    bars = []
    for turn in session.turns:
        title = f"turn {turn.number} {turn.action}: {turn.completion_tokens} tokens, {duration(turn.seconds)}"
        tone = "retry" if turn.retries else "back" if turn.off_path else "turn"
        bars.append(Bar(max(0.0, begin) * scale, turn.seconds * scale, tone, title))
        begin += turn.seconds
    return bars


def _bar(axis: Span, span: Span, tone: str, name: str) -> Bar:
    return Bar(
        _share(axis, axis.started_at, span.started_at),
        _share(axis, span.started_at, span.ended_at),
        tone,
        f"{name}: {duration(span.seconds)}",
    )


def _share(axis: Span, begin: datetime, end: datetime) -> float:
    return 100 * (end - begin).total_seconds() / axis.seconds
