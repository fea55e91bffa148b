"""Many runs of one plan beside each other: how often each cell came out how. For people; nothing is decided here."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.base.terms import ExitCode, Outcome
from runner.report.text import duration
from runner.verdict.model import CellVerdict, Verdict

_WIDTH = 140
_FINE = frozenset({Outcome.PASS, Outcome.NOT_APPLICABLE})


def series_table(verdicts: Sequence[Verdict]) -> Table:
    """One line per cell: outcomes, samples, turns, retries and time over all runs."""
    table = Table(title=f"{len(verdicts)} runs", title_justify="left")
    table.add_column("cell", no_wrap=True)
    table.add_column("outcomes")
    for name in ("samples", "turns", "soft samples", "retries", "wall, shortest", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    names = dict.fromkeys(cell.cell for verdict in verdicts for cell in verdict.cells)
    for name in names:
        cells = [cell for verdict in verdicts for cell in verdict.cells if cell.cell == name]
        outcomes = Counter(cell.outcome for cell in cells)
        absent = len(verdicts) - len(cells)
        said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
        table.add_row(
            name,
            Text(
                said + (f", {absent} not there" if absent else ""), style="green" if set(outcomes) <= _FINE else "red"
            ),
            *_figures(cells),
        )
    return table


def series_line(verdicts: Sequence[Verdict]) -> str:
    """The whole series in one line."""
    codes = Counter(verdict.exit_code for verdict in verdicts)
    cells = Counter(cell.outcome for verdict in verdicts for cell in verdict.cells)
    retries = sum(cell.retry_count for verdict in verdicts for cell in verdict.cells)
    said = ", ".join(f"{number} {outcome}" for outcome, number in cells.items()) or "no cells"
    good = codes[ExitCode.OK]
    return f"{good} of {len(verdicts)} runs passed; cells: {said}; retries {retries}"


def print_series(verdicts: Sequence[Verdict], *, stream: TextIO | None = None) -> None:
    """Table, then for each run that did not pass its id and exit code, then the one line."""
    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH)
    console.print(series_table(verdicts))
    for verdict in verdicts:
        if not verdict.passed:
            console.print(Text(f"{verdict.run_id}: exit code {int(verdict.exit_code)}", style="red"))
    console.print(series_line(verdicts))


def _figures(cells: Sequence[CellVerdict]) -> list[str]:
    if all(cell.outcome is Outcome.NOT_APPLICABLE for cell in cells):
        return [""] * 6
    walls = [cell.wall.seconds for cell in cells if cell.wall is not None]
    planned, done = sum(cell.planned_samples for cell in cells), sum(cell.completed_samples for cell in cells)
    soft = sum(round(cell.soft_ratio * cell.completed_samples) for cell in cells)
    return [
        f"{done}/{planned}",
        str(sum(cell.turns for cell in cells)),
        str(soft),
        str(sum(cell.retry_count for cell in cells)),
        duration(min(walls)) if walls else "",
        duration(max(walls)) if walls else "",
    ]
