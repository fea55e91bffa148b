"""report.html: one static file that opens without a server, a network or a script.

The templates hold the looks; what is shown is prepared here. Verdict and figures are those of verdict.json; the turns
are read from the evidence of the samples, where the caller has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from runner.base.events import PhaseEvent
from runner.base.terms import Lane, Outcome
from runner.ledger.records import Finding
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.report.chart import lease_chart, turn_bars
from runner.report.text import (
    EXPECTED,
    bad_cells,
    duration,
    headline,
    marked,
    outcome_word,
    parted,
    plain,
    retries_word,
    run_problems,
    spelled,
)
from runner.report.turns import Session, worst
from runner.verdict.engine import EngineFacts
from runner.verdict.model import CellVerdict, SampleVerdict, Verdict
from runner.verdict.timing import around

MOST_FINDINGS = 40
"""Different findings that are shown of one cell; the ledger has all."""

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


def html(
    plan: Plan,
    verdict: Verdict,
    phases: Sequence[PhaseEvent] = (),
    sessions: Mapping[tuple[str, int], Session] | None = None,
) -> str:
    """The page.

    Args:
        phases: steps of the stack with their durations, where the caller has them.
        sessions: turns by cell and sample index, where the caller has them.
    """
    driven = [cell for cell in verdict.cells if cell.outcome is not Outcome.NOT_APPLICABLE]
    charts = [lease_chart(lease, [c for c in driven if c.family == lease.family]) for lease in verdict.leases]
    return _PAGES["report.html.jinja"].render(
        plan=plan,
        verdict=verdict,
        headline=headline(verdict),
        problems=run_problems(verdict),
        lanes=list(Lane),
        rows=matrix(plan, verdict),
        cells=sorted(driven, key=lambda cell: (not cell.failed, cell.outcome is Outcome.PASS)),
        left_out=[cell for cell in verdict.cells if cell.outcome is Outcome.NOT_APPLICABLE],
        bad=len(bad_cells(verdict)),
        whole=around(cell.wall for cell in driven),
        planned={str(cell.id): cell for cell in plan.cells},
        expected=EXPECTED,
        marked=marked,
        parted=parted,
        grouped=grouped,
        session=lambda cell, sample: (sessions or {}).get((cell.cell, sample.index), Session()),
        turn_bars=turn_bars,
        concerns=concerns,
        charts=[chart for chart in charts if chart],
        phases=[phase for phase in phases if phase.seconds is not None],
        engines=[(lease.family, facts_of(verdict, lease.family)) for lease in verdict.leases],
        most=MOST_FINDINGS,
    )


def facts_of(verdict: Verdict, family: str) -> EngineFacts | None:
    """What was found out about the engine of a lease; None where it was not asked."""
    return next((facts for facts in verdict.engines if facts.family == family), None)


def matrix(plan: Plan, verdict: Verdict) -> list[Row]:
    """Families x scenarios down, lanes across, in plan order; cells of a shard that is missing are at the end."""
    found = {(cell.family, cell.scenario, cell.lane): cell for cell in verdict.cells}
    leases = {lease.family: lease for lease in plan.leases}
    keys = dict.fromkeys(
        [
            *((cell.family, cell.scenario) for cell in plan.cells),
            *((cell.family, cell.scenario) for cell in verdict.cells),
        ]
    )
    return [
        Row(family, scenario, _lease_note(leases.get(family)), [found.get((family, scenario, lane)) for lane in Lane])
        for family, scenario in keys
    ]


def tone(cell: CellVerdict) -> str:
    """The colour of a cell: good, idle, warn or bad. A failed check is bad whatever the outcome."""
    if cell.passed_on_retry:
        return "retried"
    return "bad" if cell.failed else _TONES.get(cell.outcome, "bad")


def anchor(cell: CellVerdict | PlannedCell) -> str:
    """The id of a cell's section."""
    return f"cell-{cell.family}-{cell.lane}-{cell.scenario}"


@dataclass(frozen=True)
class Found:
    """One finding with the samples that show exactly this."""

    finding: Finding
    samples: list[int]


def grouped(cell: CellVerdict) -> list[Found]:
    """The different findings of a cell, hard ones first; what several samples show is there once."""
    groups: dict[str, Found] = {}
    for sample in cell.samples:
        for finding in sample.findings:
            groups.setdefault(finding.model_dump_json(), Found(finding, [])).samples.append(sample.index)
    order = {"hard": 0, "soft": 1, "note": 2}
    return sorted(groups.values(), key=lambda found: (order[found.finding.severity], found.finding.diff is None))


def concerns(sample: SampleVerdict, turn: int) -> str:
    """The worst severity of the sample's findings on this turn, or an empty string."""
    return worst([(finding.turn, finding.severity.value) for finding in sample.findings], turn)


def _pages() -> dict[str, Template]:
    environment = Environment(
        loader=PackageLoader("runner.report", "."),
        auto_reload=False,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=lambda seconds: duration(seconds).replace(" ", "\u00a0"),
        plain=plain,
        lined=lambda text: plain(text).replace("\n", "\u21b5"),
        outcome_word=outcome_word,
        retries=retries_word,
        spelled=spelled,
        tone=tone,
        anchor=anchor,
        count=lambda number: f"{number:,}".replace(",", "\u202f"),
    )
    return {name: environment.get_template(name) for name in environment.list_templates(extensions=["jinja"])}


_PAGES = _pages()
"""Template by name, read with the code: a page is written at the end of a long run, and must fit what runs then."""


def _lease_note(lease: PlannedLease | None) -> str:
    if lease is None:
        return ""
    where = "CPU" if not lease.gpus else f"{lease.gpus} GPUs, TP {lease.tensor_parallel}"
    return f"{lease.model} · {where}" + (" · deprecated" if lease.deprecated else "")
