"""Writes every report of a run into its directory, and the copies that GitHub asks for.

Files appear whole or not at all: each is written beside its place and moved there, so that a reader who comes in
between, or a kill, never sees half a verdict.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from runner.base.events import PhaseEvent
from runner.base.settings import Settings
from runner.plan.model import Plan
from runner.report.closing import print_closing
from runner.report.html import html
from runner.report.junit import write_junit
from runner.report.summary import github_annotations, summary
from runner.report.turns import read_session
from runner.verdict.artifacts import PLAN_NAME, VERDICT_NAME
from runner.verdict.model import Verdict

JUNIT_NAME = "junit.xml"
SUMMARY_NAME = "summary.md"
HTML_NAME = "report.html"


@dataclass(frozen=True)
class Written:
    """Where the reports are."""

    verdict: Path
    junit: Path
    summary: Path
    html: Path


def write_plan(run: Path, plan: Plan) -> Path:
    """Write plan.json into the run's directory."""
    return _put(run / PLAN_NAME, plan.model_dump_json(indent=2) + "\n")


def write_reports(
    plan: Plan,
    verdict: Verdict,
    run: Path,
    settings: Settings,
    *,
    phases: Sequence[PhaseEvent] = (),
    stream: TextIO | None = None,
) -> Written:
    """Write every report into the run's directory, give GitHub its copies, and print the closing page last.

    Args:
        phases: steps of the stack with their durations, for the page.
        stream: where the closing page and the annotations go; stdout by default.
    """
    written = write_files(plan, verdict, run, phases=phases)
    report_to_github(
        verdict, step_summary=settings.github_step_summary, annotate=settings.github_actions, stream=stream
    )
    print_closing(verdict, run, stream=stream)
    return written


def write_files(
    plan: Plan, verdict: Verdict, run: Path, *, phases: Sequence[PhaseEvent] = (), evidence: Path | None = None
) -> Written:
    """Write verdict.json, junit.xml, summary.md and report.html into the run's directory.

    `evidence` is where the sessions lie that the page shows; the run's own directory by default.
    """
    sessions = {
        (cell.cell, sample.index): read_session(evidence or run, cell, sample)
        for cell in verdict.cells
        for sample in cell.samples
    }
    return Written(
        verdict=_put(run / VERDICT_NAME, verdict.model_dump_json(indent=2) + "\n"),
        junit=_place(run / JUNIT_NAME, lambda part: write_junit(verdict, part)),
        summary=_put(run / SUMMARY_NAME, summary(verdict)),
        html=_put(run / HTML_NAME, html(plan, verdict, phases, sessions)),
    )


def report_to_github(
    verdict: Verdict, *, step_summary: Path | None, annotate: bool, stream: TextIO | None = None
) -> None:
    """Append the summary to the step's summary file and print the annotations (to stdout), where asked for."""
    if step_summary:
        with step_summary.open("a", encoding="utf-8") as file:
            file.write(summary(verdict))
    if annotate:
        for line in github_annotations(verdict):
            print(line, file=stream or sys.stdout)


def _put(path: Path, text: str) -> Path:
    return _place(path, lambda part: part.write_text(text, encoding="utf-8"))


def _place(path: Path, write: Callable[[Path], object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
