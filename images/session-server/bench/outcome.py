"""What a load saw: of one run, and of several runs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(slots=True)
class Outcome:
    """Seconds per turn, `[sessions][turns]`, and for all of it.

    `cpu_marks` `[5]` are the seconds of processor time that the target's process had used at the start and when each
    quarter of all turns was done.
    """

    seconds: float = 0.0
    cpu_marks: list[float] = field(default_factory=list)
    turns: list[list[float]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of turns."""
        return sum(map(len, self.turns))

    @property
    def rate(self) -> float:
        """Turns per second."""
        return self.count / self.seconds

    @property
    def cpu_milliseconds(self) -> float:
        """Processor time of the target per turn; what stays comparable when the machine is busy with other things."""
        return 1000 * (self.cpu_marks[-1] - self.cpu_marks[0]) / self.count

    def cpu_quarter(self, number: int) -> float:
        """As `cpu_milliseconds`, of the `number`-th quarter (0 to 3) of all turns."""
        return 1000 * (self.cpu_marks[number + 1] - self.cpu_marks[number]) / (self.count / 4)


@dataclass(frozen=True, slots=True)
class Rounds:
    """Several runs of the same load against the same target: the best rate, and latencies of all of them together."""

    outcomes: Sequence[Outcome]

    @property
    def rate(self) -> float:
        """Turns per second of the fastest run: what slows a run down is nearly always something else on the machine."""
        return max(outcome.rate for outcome in self.outcomes)

    def percentile(self, share: float) -> float:
        """Milliseconds that `share` of the turns of all runs took at most."""
        ordered = sorted(value for outcome in self.outcomes for session in outcome.turns for value in session)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000

    def quarter(self, number: int) -> float:
        """Median of the `number`-th quarter (0 to 3) of the turns of all runs, in milliseconds."""
        values: list[float] = []
        for outcome in self.outcomes:
            for session in outcome.turns:
                size = max(1, len(session) // 4)
                values += session[number * size : (number + 1) * size]
        return median(values) * 1000

    @property
    def cpu_milliseconds(self) -> float:
        """Processor time of the target per turn: the median of the runs."""
        return median(outcome.cpu_milliseconds for outcome in self.outcomes)

    def cpu_quarter(self, number: int) -> float:
        """As `cpu_milliseconds`, of the `number`-th quarter (0 to 3) of all turns."""
        return median(outcome.cpu_quarter(number) for outcome in self.outcomes)


def growth(target: Rounds, stub: Rounds) -> float:
    """Last-quarter p50 over first-quarter p50, less what the growing request body costs the stub alone."""
    grown = stub.quarter(3) - stub.quarter(0)
    return (target.quarter(3) - grown) / target.quarter(0)
