"""The last thing on screen: the table of the cells, and for each that did not pass what a person needs next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.base.terms import Outcome
from runner.report.text import (
    EXPECTED,
    bad_cells,
    diff_lines,
    duration,
    engine_lines,
    finding_title,
    first_finding,
    headline,
    outcome_word,
    plain,
    remarks,
    retries_word,
    run_problems,
    times,
)
from runner.verdict.model import CellVerdict, Rule, Verdict
from runner.verdict.timing import around

_STYLES = {Outcome.PASS: "green", Outcome.NOT_APPLICABLE: "dim"}
_MOST_CELLS = 5
"""Cells that are explained on screen; the reports have all."""
_TAIL_LINES = 20
_MOST_PROBLEMS = 8
_MOST_REMARKS = 5
"""Retries, notes and faults of one cell that are shown on screen."""
_LOG_WIDTH = 160
"""Columns of a log; only a terminal has an edge of its own."""


def print_closing(verdict: Verdict, run: Path, *, stream: TextIO | None = None) -> None:
    """Print the summary of a run. `run` is its artifacts directory; `stream` is stdout by default."""
    console = Console(file=stream or sys.stdout, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = max(console.width, _LOG_WIDTH)
    console.print(_table(verdict))
    for cell in verdict.cells:
        if cell.outcome is Outcome.NOT_APPLICABLE:
            console.print(Text(f"{cell.cell}: not applicable: {cell.reasons[0].message}", style="dim"))
    for cell in verdict.cells:
        said = remarks(cell)
        for remark in said[:_MOST_REMARKS]:
            console.print(Text(plain(f"{cell.cell}: {remark}"), style="yellow"))
        if len(said) > _MOST_REMARKS:
            console.print(Text(f"{cell.cell}: and {len(said) - _MOST_REMARKS} more: see report.html", style="yellow"))
    for family, facts in engine_lines(verdict):
        console.print(Text(plain(f"{family}: engine {facts}"), style="dim"))
    for lease in verdict.leases:
        figures = ", ".join(f"{name} {figure}" for name, figure in times(lease))
        if figures:
            console.print(Text(f"{lease.family}: {figures}", style="dim"))
    problems = run_problems(verdict)
    for kind, problem in problems[:_MOST_PROBLEMS]:
        console.print(Text(plain(f"{kind}: {problem}"), style="red"))
    if len(problems) > _MOST_PROBLEMS:
        console.print(Text(f"and {len(problems) - _MOST_PROBLEMS} more problems of the run", style="red"))
    console.print(Text(headline(verdict), style="bold green" if verdict.passed else "bold red"))
    console.print(Text(f"artifacts: {run}"))
    bad = bad_cells(verdict)
    for cell in bad[:_MOST_CELLS]:
        console.print()
        for line, style in failure_lines(cell, run):
            console.print(Text(plain(line), style=style))
    if len(bad) > _MOST_CELLS:
        console.print(Text(f"\nand {len(bad) - _MOST_CELLS} more cells: see {run / 'report.html'}"))


def failure_lines(cell: CellVerdict, run: Path) -> list[tuple[str, str]]:
    """Lines with their style: which cell, what was expected, what was seen, where to look, how to run it again."""
    lines = [(f"{cell.cell}: {outcome_word(cell)}", "bold red")]
    for reason in cell.reasons:
        lines += [
            (f"  expected  {EXPECTED[reason.rule]}", ""),
            (f"  seen      {reason.message}", ""),
        ]
    if any(reason.rule in (Rule.HARD, Rule.SOFT, Rule.CONTENT) for reason in cell.reasons):
        found = first_finding(cell)
        if found:
            lines.append((f"  {finding_title(*found)}", ""))
            lines += [(f"    {line}", "") for line in (diff_lines(found[1].diff) if found[1].diff else [])]
    if cell.log_tail:
        lines.append(("  last lines of what broke:", ""))
        lines += [(f"    | {line}", "dim") for line in cell.log_tail[-_TAIL_LINES:]]
    lines.append((f"  artifacts {run / cell.artifacts}", ""))
    if cell.reproduce:
        lines.append((f"  again     {cell.reproduce}", "bold"))
    return lines


def _table(verdict: Verdict) -> Table:
    table = Table(title=f"run {verdict.run_id}", title_justify="left")
    table.add_column("cell", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    for name in ("samples", "turns", "prompt tokens", "sampled tokens", "wall", "seconds", "retries"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in verdict.cells:
        ran = cell.outcome is not Outcome.NOT_APPLICABLE
        table.add_row(
            cell.cell,
            Text(outcome_word(cell), style=_STYLES.get(cell.outcome, "red")),
            *(
                (
                    f"{cell.completed_samples}/{cell.planned_samples}",
                    str(cell.turns),
                    str(cell.prompt_tokens),
                    str(cell.completion_tokens),
                    f"{cell.wall.seconds:.1f}" if cell.wall else "",
                    f"{cell.seconds:.1f}",
                    retries_word(cell.retries),
                )
                if ran
                else ()
            ),
        )
    total = [cell for cell in verdict.cells if cell.outcome is not Outcome.NOT_APPLICABLE]
    together = around(cell.wall for cell in total)
    if len(total) > 1:
        table.add_section()
        table.add_row(
            "all",
            "",
            f"{sum(c.completed_samples for c in total)}/{sum(c.planned_samples for c in total)}",
            str(sum(c.turns for c in total)),
            str(sum(c.prompt_tokens for c in total)),
            str(sum(c.completion_tokens for c in total)),
            duration(together.seconds) if together else "",
            duration(sum(c.seconds for c in total)),
            str(sum(c.retry_count for c in total)),
        )
    return table
