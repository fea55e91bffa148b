"""Collects what the ledgers say about one cell, sample by sample, before anything is judged.

A sample counts only with exactly one terminal record that fits the plan. What is missing, doubled or does not belong
is listed in words; damaged ledgers are not believed at all, unfinished ones up to their last whole line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.ledger.reader import Ledger, LedgerProblem, ProblemKind
from runner.ledger.records import (
    AttemptRecord,
    FaultRecord,
    InfraRecord,
    NoteRecord,
    PhaseRecord,
    RecreatedRecord,
    RedactedRecord,
    SampleRecord,
    Severity,
    VerificationErrorRecord,
)
from runner.ledger.timeline import in_order
from runner.plan.model import PlannedCell, PlannedSample
from runner.verdict.model import SampleState, SampleVerdict
from runner.verdict.timing import INTERRUPTED

NOT_APPLICABLE = "not_applicable"
"""The type of a finding that says that a check of the oracle could not be made."""

Terminal = SampleRecord | VerificationErrorRecord | InfraRecord


@dataclass
class Evidence:
    """Everything that is known about one cell."""

    missing: list[str] = field(default_factory=list)
    """What is wrong with the evidence itself, in words."""
    damaged: bool = False
    """A ledger is not what its writer wrote, or is of another run: nothing in it is believed."""
    samples: list[SampleRecord] = field(default_factory=list)
    errors: list[VerificationErrorRecord] = field(default_factory=list)
    infra: list[InfraRecord] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    retried: list[str] = field(default_factory=list)
    verdicts: list[SampleVerdict] = field(default_factory=list)


def collect(cell: PlannedCell, ledgers: Sequence[Ledger], run_id: str) -> Evidence:
    """The evidence about `cell` in its ledgers, one per writer."""
    evidence = Evidence()
    if not ledgers:
        evidence.missing.append("there is no ledger: the cell was not driven, or its ledger did not travel")
    terminals: dict[int, list[Terminal]] = {}
    whole: list[Terminal] = []
    attempts: list[AttemptRecord] = []
    for ledger in ledgers:
        problems = ledger_problems(ledger, run_id, str(cell.id))
        evidence.missing += problems.messages
        if problems.damaged:
            evidence.damaged = True
    for record in in_order(believed(ledgers, run_id, str(cell.id))):
        match record:
            case SampleRecord() | VerificationErrorRecord() | InfraRecord():
                _file(record, evidence)
                if record.sample_index is None:
                    whole.append(record)
                else:
                    terminals.setdefault(record.sample_index, []).append(record)
            case AttemptRecord():
                attempts.append(record)
                evidence.retried.append(attempt_text(record))
            case FaultRecord():
                evidence.faults.append(f"{record.name}: {record.detail}" if record.detail else record.name)
            case NoteRecord():
                evidence.notes.append(record.message)
            case RedactedRecord():
                evidence.notes.append(
                    f"secrets were taken out of a ledger; as written, its sha256 was {record.written_sha256}"
                )
    # a check that could not be made for the family is said of the cell, once
    evidence.notes += dict.fromkeys(
        finding.message for sample in evidence.samples for finding in sample.findings if finding.type == NOT_APPLICABLE
    )
    if whole:
        # What ends the cell as a whole ends every sample that had not come to its own end.
        for planned in cell.samples:
            terminals.setdefault(planned.index, whole[:1])
    _match_plan(cell, terminals, evidence)
    evidence.verdicts = [
        sample_verdict(planned, terminals.get(planned.index, []), attempts) for planned in cell.samples
    ]
    return evidence


@dataclass(frozen=True)
class LedgerProblems:
    """What is wrong with one ledger as evidence for a cell or lease of a run."""

    messages: list[str]
    damaged: bool


def ledger_problems(ledger: Ledger, run_id: str, cell: str) -> LedgerProblems:
    """Problems of the file, and whether it belongs to this run and cell at all."""
    messages = [f"{ledger.path}: {_said(ledger, problem)}" for problem in ledger.problems]
    foreign = False
    if ledger.header:
        for what, seen, expected in (("run", ledger.header.run, run_id), ("cell", ledger.header.cell, cell)):
            if seen != expected:
                foreign = True
                messages.append(f"{ledger.path}: it is the ledger of {what} {seen!r}, expected {expected!r}")
    return LedgerProblems(messages, damaged=foreign or bool(ledger.damaged))


def _said(ledger: Ledger, problem: LedgerProblem) -> str:
    last = ledger.records[-1] if ledger.records else None
    if problem.kind is ProblemKind.NO_TRAILER and isinstance(last, PhaseRecord) and last.phase == INTERRUPTED:
        return "the run was interrupted before this lease was done"
    return str(problem)


def believed(ledgers: Sequence[Ledger], run_id: str, cell: str) -> list[Ledger]:
    """The ledgers that are believed: undamaged, and of this run and this cell or lease."""
    return [ledger for ledger in ledgers if not ledger_problems(ledger, run_id, cell).damaged]


def sample_verdict(
    planned: PlannedSample, terminals: Sequence[Terminal], attempts: Sequence[AttemptRecord]
) -> SampleVerdict:
    """One planned sample as the ledger tells it."""
    verdict = SampleVerdict(
        index=planned.index,
        state=SampleState.MISSING,
        message="no terminal record",
        seed=planned.seed,
        stream=planned.stream,
        worker=planned.worker,
        retries=dict(Counter(a.cause for a in attempts if a.sample_index == planned.index)),
    )
    if len(terminals) > 1:
        verdict.message = f"{len(terminals)} terminal records"
        return verdict
    for record in terminals:
        verdict.ended_at = record.at
        match record:
            case SampleRecord():
                _describe(verdict, record)
            case VerificationErrorRecord():
                verdict.state, verdict.message = SampleState.ERROR, error_text(record)
                verdict.driver_events = record.driver_events
            case InfraRecord():
                verdict.state, verdict.message = SampleState.INFRA, infra_text(record)
    return verdict


def is_hard(sample: SampleRecord) -> bool:
    """Whether the sample shows a hard mismatch, by its count or by any finding."""
    return sample.hard_mismatch_count > 0 or any(finding.severity is Severity.HARD for finding in sample.findings)


def is_soft(sample: SampleRecord) -> bool:
    """Whether assistant text differs anywhere in the sample."""
    return (
        sample.had_assistant_mismatch
        or sample.assistant_mismatch_count > 0
        or any(finding.severity is Severity.SOFT for finding in sample.findings)
    )


def has_content(sample: SampleRecord) -> bool:
    """Whether the *content* of an assistant turn differs, and not only its form."""
    return any(finding.severity is Severity.SOFT and finding.type == "content" for finding in sample.findings)


def error_text(record: VerificationErrorRecord) -> str:
    """One line for people."""
    body = record.verification_error
    return f"[{body.stage}] {body.type}: {body.message}"


def infra_text(record: InfraRecord | RecreatedRecord) -> str:
    """One line for people."""
    details = []
    if record.exit_code is not None:
        details.append(f"exit code {record.exit_code}")
    if record.oom_killed:
        details.append("killed for memory")
    return f"{record.service}: {record.message}" + (f" ({', '.join(details)})" if details else "")


def attempt_text(record: AttemptRecord) -> str:
    """One line for people."""
    details = [f"finish reason {record.finish_reason}"] if record.finish_reason else []
    details += [f"seed {record.seed}"] if record.seed is not None else []
    said = f" ({', '.join(details)})" if details else ""
    return f"sample {record.sample_index} turn {record.turn}: retry {record.attempt} after {record.cause}{said}"


def _file(record: Terminal, evidence: Evidence) -> None:
    match record:
        case SampleRecord():
            evidence.samples.append(record)
        case VerificationErrorRecord():
            evidence.errors.append(record)
        case InfraRecord():
            evidence.infra.append(record)


def _match_plan(cell: PlannedCell, terminals: dict[int, list[Terminal]], evidence: Evidence) -> None:
    planned = {sample.index: sample for sample in cell.samples}
    absent = [str(index) for index in planned if index not in terminals]
    if absent and terminals:
        evidence.missing.append(f"no terminal record of sample{'s' * (len(absent) > 1)} {', '.join(absent)}")
    elif absent and not evidence.missing:
        evidence.missing.append("no sample has a terminal record")
    for index, sample in planned.items():
        found = terminals.get(index, [])
        if len(found) > 1:
            evidence.missing.append(f"sample {index} has {len(found)} terminal records")
        for record in found:
            if isinstance(record, SampleRecord):
                for name, seen, wanted in (
                    ("seed", record.seed, sample.seed),
                    ("stream", record.stream, sample.stream),
                    ("worker", record.worker, sample.worker),
                ):
                    if seen != wanted:
                        evidence.missing.append(f"sample {index} was driven with {name} {seen}, planned is {wanted}")
    for index in sorted(set(terminals) - set(planned)):
        evidence.missing.append(f"sample {index} has a terminal record and was not planned")
    seats: dict[str, set[int]] = {}
    for done in evidence.samples:
        if done.instance_id is not None:
            seats.setdefault(done.instance_id, set()).add(done.worker)
    for instance, workers in seats.items():
        if len(workers) > 1:
            shown = ", ".join(map(str, sorted(workers)))
            evidence.missing.append(f"workers {shown} all say that they are instance {instance!r}")


def _describe(verdict: SampleVerdict, record: SampleRecord) -> None:
    hard, soft = is_hard(record), is_soft(record)
    verdict.state = SampleState.HARD if hard else SampleState.SOFT if soft else SampleState.CLEAN
    grave = [finding for finding in record.findings if finding.severity is not Severity.NOTE]
    first = min(grave, key=lambda finding: finding.severity is not Severity.HARD, default=None)
    verdict.message = first.message if first else ""
    verdict.session_id = record.session_id
    verdict.instance_id = record.instance_id or ""
    verdict.driver_events = record.driver_events
    verdict.turns = record.turns
    verdict.retries = record.retries
    verdict.seconds = record.seconds
    verdict.prompt_tokens = record.prompt_tokens
    verdict.completion_tokens = record.completion_tokens
    verdict.findings = record.findings
