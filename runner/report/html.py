"""report.html: one static file that opens without a server, a network or a script.

The template holds the looks; what is shown is prepared here, so that the page shows nothing that verdict.json lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined

from runner.base.events import PhaseEvent
from runner.base.terms import Lane, Outcome
from runner.ledger.records import Finding
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.report.text import (
    EXPECTED,
    bad_cells,
    duration,
    headline,
    marked,
    outcome_word,
    plain,
    retries_word,
    visible,
)
from runner.verdict.model import CellVerdict, Verdict

MOST_FINDINGS = 20
"""Findings that are shown of one sample; the ledger has all."""

_TONES = {
    Outcome.PASS: "good",
    Outcome.NOT_APPLICABLE: "idle",
    Outcome.INFRA: "warn",
    Outcome.INCOMPLETE: "warn",
}


@dataclass(frozen=True)
class Row:
    """One line of the matrix: a family, a scenario, and its cell in every lane (None where none is planned)."""

    family: str
    scenario: str
    note: str
    cells: list[CellVerdict | None] = field(default_factory=list)


def html(plan: Plan, verdict: Verdict, phases: Sequence[PhaseEvent] = ()) -> str:
    """The page. `phases` are the steps of the stack with their durations, where the caller has them."""
    environment = Environment(
        loader=PackageLoader("runner.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=lambda seconds: duration(seconds).replace(" ", "\u00a0"),
        plain=plain,
        outcome_word=outcome_word,
        retries=retries_word,
        visible=visible,
        tone=tone,
        anchor=anchor,
    )
    driven = [cell for cell in verdict.cells if cell.outcome is not Outcome.NOT_APPLICABLE]
    return environment.get_template("report.html.jinja").render(
        plan=plan,
        verdict=verdict,
        headline=headline(verdict),
        lanes=list(Lane),
        rows=matrix(plan, verdict),
        cells=sorted(driven, key=lambda cell: (not cell.failed, cell.outcome is Outcome.PASS)),
        left_out=[cell for cell in verdict.cells if cell.outcome is Outcome.NOT_APPLICABLE],
        bad=len(bad_cells(verdict)),
        planned={str(cell.id): cell for cell in plan.cells},
        expected=EXPECTED,
        marked=marked,
        shown=shown_findings,
        slowest=max((sample.seconds for cell in driven for sample in cell.samples), default=0.0),
        phases=[phase for phase in phases if phase.seconds is not None],
        most=MOST_FINDINGS,
    )


def matrix(plan: Plan, verdict: Verdict) -> list[Row]:
    """Families x scenarios down, lanes across, in plan order."""
    found = {(cell.family, cell.scenario, cell.lane): cell for cell in verdict.cells}
    leases = {lease.family: lease for lease in plan.leases}
    keys = dict.fromkeys((cell.family, cell.scenario) for cell in plan.cells)
    return [
        Row(family, scenario, _lease_note(leases.get(family)), [found.get((family, scenario, lane)) for lane in Lane])
        for family, scenario in keys
    ]


def tone(cell: CellVerdict) -> str:
    """The colour of a cell: good, idle, warn or bad. A failed check is bad whatever the outcome."""
    return "bad" if cell.failed else _TONES.get(cell.outcome, "bad")


def anchor(cell: CellVerdict | PlannedCell) -> str:
    """The id of a cell's section."""
    return f"cell-{cell.family}-{cell.lane}-{cell.scenario}"


def shown_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one sample that are shown, hard ones first."""
    order = {"hard": 0, "soft": 1, "note": 2}
    return sorted(findings, key=lambda finding: order[finding.severity])[:MOST_FINDINGS]


def _lease_note(lease: PlannedLease | None) -> str:
    if lease is None:
        return ""
    where = "CPU" if not lease.gpus else f"{lease.gpus} GPUs, TP {lease.tensor_parallel}"
    return f"{lease.model} · {where}" + (" · deprecated" if lease.deprecated else "")
