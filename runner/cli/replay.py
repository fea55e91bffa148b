"""`replay`: oracle and gate once more, on the artifacts of a run alone. No containers, no engine, no network.

Every sample that was judged is judged again from its evidence, `sessions/<index>.json`. What broke off while it was
driven cannot be driven again: its record stands as it is, and so do the findings of checks that asked the engine. The
replayed verdict is then held against the recorded one; where they differ the evidence does not support the verdict, and
that is a problem of the run as a whole (exit 4), unless a check failed (exit 1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from runner.base.errors import IncompleteError, InfrastructureError, VerificationError
from runner.base.terms import ExitCode
from runner.cli.place import writable, writing
from runner.lane.snapshot import SCHEMA_VERSION, SessionFile, session_path
from runner.ledger.reader import Ledger, LedgerProblem, ProblemKind
from runner.ledger.records import Body, SampleRecord
from runner.ledger.sample import from_record, sample_record
from runner.ledger.writer import failure_record
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.oracle.parity import CHECK as PARITY
from runner.oracle.scoring import CHECK as SCORING
from runner.plan.model import Plan, PlannedCell
from runner.report.closing import print_closing
from runner.report.text import NOT_AS_RECORDED
from runner.report.write import write_files, write_plan
from runner.verdict.artifacts import (
    VERDICT_NAME,
    judged,
    load_ledgers,
    load_plan,
    load_recorded,
    load_run,
    load_shards,
    merged,
)
from runner.verdict.compare import differences
from runner.verdict.gate import with_problems
from runner.verdict.model import Verdict
from runner.verdict.models import kept_models

LIVE_CHECKS = frozenset({PARITY, SCORING})
"""Checks that ask the engine. There is none in a replay, so that their recorded findings stand."""

Measures = Callable[[str], Measure]


def replay(run: Path, *, models: Path | None = None, out: Path | None = None) -> ExitCode:
    """Judge the artifacts in `run` again, print the verdict and return its exit code. Writes only below `out`.

    Args:
        models: a directory with `<family>/tokenizer.json`, for artifacts that have none of their own.
        out: where the reports of the replayed verdict go.

    Raises:
        ConfigurationError: `run` is not the directory of a run, or `out` cannot be written.
    """
    # Before the tokenizer library is imported: it must neither ask a model hub nor tell that it lacks a GPU library.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if out is not None:
        writable("--out", out)
    plan, verdict = replayed(run, models=models)
    if out is not None:
        with writing("--out", out):
            write_plan(out, plan)
            written = write_files(plan, verdict, out, evidence=run)
        print(f"reports: {written.html.parent}")
    print_closing(verdict, run)
    count = sum(cell.completed_samples for cell in verdict.cells)
    print(f"replayed: {count} samples judged again; {_compared(run, verdict)}")
    return verdict.exit_code


def _compared(run: Path, verdict: Verdict) -> str:
    if verdict.differences:
        return f"see above for what is {NOT_AS_RECORDED}"
    return "the verdict is the recorded one" if load_recorded(run) else NO_VERDICT


NO_VERDICT = "there is no recorded verdict to compare with"


def replayed(run: Path, *, models: Path | None = None) -> tuple[Plan, Verdict]:
    """Plan and verdict of the run after judging all its evidence again, with how it differs from the recorded one.

    A run that lost its verdict lacks evidence; what it would have been is then what the ledgers say.

    Raises:
        ConfigurationError: there is no plan that can be read.
    """
    shards = load_shards(run)
    if shards:
        plan, verdict = merged(run, shards, [replayed(shard, models=models) for shard in shards])
        _, gated = load_run(run)
        # What the evidence says of each shard is compared there; here, that the verdict is the one of these shards.
        return plan, _held_against(run, verdict, gated=gated, again=gated)
    plan = load_plan(run)
    forms = {lease.family: lease.tito_model for lease in plan.leases}

    @cache
    def measure(family: str) -> Measure:
        if family not in forms:
            raise IncompleteError(f"plan.json has no lease of family {family}, so its tokens cannot be read")
        place = models / family if models is not None else kept_models(run, family)
        return Measure.load(place, forms[family])

    ledgers = load_ledgers(run)
    verdict = judged(run, plan, rejudged(plan, ledgers, run, measure))
    return plan, _held_against(run, verdict, gated=judged(run, plan, ledgers), again=verdict)


def _held_against(run: Path, verdict: Verdict, *, gated: Verdict, again: Verdict) -> Verdict:
    """`verdict`, with how `again` differs from what the run recorded; from `gated` where it recorded none."""
    recorded = load_recorded(run)
    lacking = [] if recorded else [f"{VERDICT_NAME} is missing: {NO_VERDICT}"]
    return with_problems(verdict, lacking, differences(recorded or gated, again))


def rejudged(
    plan: Plan, ledgers: Mapping[str, Sequence[Ledger]], run: Path, measure: Measures
) -> dict[str, list[Ledger]]:
    """The ledgers with every sample record replaced by what its evidence says today."""
    cells = {str(cell.id): cell for cell in plan.cells if cell.applicable}
    return {
        key: [_rejudge(ledger, cells[key], plan.run_id, run, measure) for ledger in found]
        if key in cells
        else list(found)
        for key, found in ledgers.items()
    }


def _rejudge(ledger: Ledger, cell: PlannedCell, run_id: str, run: Path, measure: Measures) -> Ledger:
    records: list[Body] = []
    problems = list(ledger.problems)
    for record in ledger.records:
        if not isinstance(record, SampleRecord):
            records.append(record)
            continue
        try:
            records.append(_judge(record, cell, run_id, run, measure))
        except (IncompleteError, InfrastructureError) as error:
            lost = f"sample {record.sample_index} cannot be judged again: {error}"
            problems.append(LedgerProblem(ProblemKind.LOST, lost))
    return replace(ledger, records=records, problems=problems)


def _judge(record: SampleRecord, cell: PlannedCell, run_id: str, run: Path, measure: Measures) -> Body:
    """One sample once more. Raises IncompleteError or InfrastructureError where its evidence is not there."""
    path = session_path(run, cell.id, record.sample_index)
    file = SessionFile.load(path)
    for what, seen, expected in (
        ("schema version", file.schema_version, SCHEMA_VERSION),
        ("run", file.run, run_id),
        ("cell", file.cell, str(cell.id)),
        ("sample", file.sample_index, record.sample_index),
    ):
        if seen != expected:
            raise IncompleteError(f"{path.relative_to(run)} is of {what} {seen!r}, expected {expected!r}")
    ground = measure(cell.family)
    live = [from_record(finding) for finding in record.findings if finding.check in LIVE_CHECKS]
    try:
        findings = judge(file.view, file.transcript, cell, ground)
    except VerificationError as error:
        failed = failure_record(error, stage="records", sample_index=record.sample_index)
        return failed.model_copy(update={"at": record.at})
    new = sample_record(
        file.view,
        file.transcript,
        [*findings, *live],
        sample_index=record.sample_index,
        seconds=record.seconds,
        worker=record.worker,
        instance_id=record.instance_id,
    )
    return new.model_copy(update={"at": record.at})
