"""The gate: plan and ledgers to a verdict. Pure; exit codes of containers are evidence and never looked at here.

The rules are applied in this order, and the first that a cell breaks gives its outcome:

1. evidence - every planned sample has exactly one terminal record and every writer its trailer, else `incomplete`.
   What is recorded for the cell as a whole ends those of its samples that have no terminal record of their own.
   Where the cell, or the host for its lease, recorded that something underneath broke, samples that it cost make the
   cell `infra` instead. A damaged ledger stays `incomplete`: a break underneath does not explain an edited file.
2. verification errors fail the cell, whatever other samples say: `verifier-error`, or `model-incomplete` where every
   one of them is a model that kept stopping early.
3. no sample at all fails: `verifier-error`.
4. a hard mismatch fails: `hard`.
5. coverage: required driver events that are missing fail: `verifier-error`.
6. more soft mismatches than the lane tolerates, or more changed content: `soft`.
7. more retries than the cell's own limit: `soft`. A pass with retries is visible (`passed_on_retry`).
8. a lease that was created again for the cell, after something underneath broke, more often than the cell's limit:
   `infra`, also where the cell passed then (`passed_again`). Within the limit it passes, on retry.

All broken rules are kept as reasons, not only the first. Passing needs complete evidence; failing does not: a failure
that is seen in sound lines sets `failed`, also in a cell whose outcome is `infra` or `incomplete`. One exception: in a
cell that lost samples to infrastructure, verification errors are reported but do not set `failed`, since a broken
engine makes checks fail; mismatches of samples that were driven to their end do.

Exit code of the run, first that applies: 1 any cell failed; 3 any cell is `infra`; 4 any cell is `incomplete`, the run
as a whole lacks evidence, or nothing ran at all; 0. So a real verification failure is never hidden by what happened
elsewhere. The gate never returns 2: that is for what was wrong before anything started. Nor 130: that the run was
interrupted stands in the ledgers of its leases and beside the code, which is that of what was done until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from runner.base.terms import ExitCode, Outcome
from runner.ledger.paths import lease_cell
from runner.ledger.reader import Ledger
from runner.ledger.records import InfraRecord, RecreatedRecord
from runner.plan.model import Plan, PlannedCell
from runner.verdict.evidence import (
    Evidence,
    believed,
    collect,
    error_text,
    has_content,
    infra_text,
    is_hard,
    is_soft,
    ledger_problems,
)
from runner.verdict.lines import drive
from runner.verdict.model import CellVerdict, Reason, Rule, SampleState, Verdict
from runner.verdict.timing import lease_timing, wall, was_interrupted

_UNDRIVEN = frozenset({SampleState.INFRA, SampleState.MISSING})


def decide(plan: Plan, ledgers: Mapping[str, Sequence[Ledger]]) -> Verdict:
    """The verdict of a run.

    Args:
        ledgers: by cell (`family/lane/scenario`) or lease (`lease:<family>`): one ledger per writer. A key that is
            not there, or an empty list, is a cell without a ledger.
    """
    problems = []
    known = {str(cell.id) for cell in plan.cells} | {lease_cell(lease.family) for lease in plan.leases}
    for key in ledgers:
        if key not in known and ledgers[key]:
            problems.append(
                f"there is a ledger of {key}, which is not in the plan: plan and artifacts do not belong together"
            )
    cells = []
    for cell in plan.cells:
        lease = ledgers.get(lease_cell(cell.family), [])
        cells.append(judge(plan, cell, ledgers.get(str(cell.id), []), lease))
    if not any(cell.applicable for cell in plan.cells):
        problems.append("no cell of the plan can run: nothing was verified")
    hosts = {
        lease.family: believed(ledgers.get(lease_cell(lease.family), []), plan.run_id, lease_cell(lease.family))
        for lease in plan.leases
    }
    return Verdict(
        run_id=plan.run_id,
        exit_code=exit_code(cells, problems),
        interrupted=any(was_interrupted(own) for own in hosts.values()),
        problems=problems,
        cells=cells,
        leases=[
            lease_timing(family, [cell for cell in cells if cell.family == family], own)
            for family, own in hosts.items()
        ],
    )


def with_problems(verdict: Verdict, problems: Sequence[str], differences: Sequence[str] = ()) -> Verdict:
    """The verdict with more problems of the run as a whole, or differences, and the exit code that follows."""
    every, differ = [*verdict.problems, *problems], [*verdict.differences, *differences]
    code = exit_code(verdict.cells, [*every, *differ])
    return verdict.model_copy(update={"problems": every, "differences": differ, "exit_code": code})


def exit_code(cells: Sequence[CellVerdict], problems: Sequence[str] = ()) -> ExitCode:
    """The process exit code for these cells; the precedence is in the module's docstring."""
    outcomes = {cell.outcome for cell in cells}
    if any(cell.failed for cell in cells):
        return ExitCode.VERIFICATION_FAILED
    if Outcome.INFRA in outcomes:
        return ExitCode.INFRASTRUCTURE
    if problems or Outcome.INCOMPLETE in outcomes or Outcome.PASS not in outcomes:
        return ExitCode.INCOMPLETE
    return ExitCode.OK


def judge(plan: Plan, cell: PlannedCell, ledgers: Sequence[Ledger], lease: Sequence[Ledger] = ()) -> CellVerdict:
    """The verdict on one cell. `lease` are the ledgers that the host wrote for the cell's lease."""
    verdict = CellVerdict(
        cell=str(cell.id),
        family=cell.family,
        lane=cell.lane,
        scenario=cell.scenario,
        outcome=Outcome.PASS,
        failed=False,
        planned_samples=len(cell.samples),
        artifacts=f"cells/{cell.id}",
        reproduce=drive(plan, cell) if cell.applicable else "",
    )
    if not cell.applicable:
        return _not_applicable(verdict, cell, ledgers)
    evidence = collect(cell, ledgers, plan.run_id)
    broken, again, lost = _underneath(cell, evidence, lease, plan.run_id)
    findings: list[tuple[Outcome, Reason]] = []
    for rule in (_errors, _samples, _hard, _coverage, _soft, _retries):
        findings += rule(cell, evidence)
    undriven = any(sample.state in _UNDRIVEN for sample in evidence.verdicts) or bool(evidence.missing)
    hit = bool(broken) and undriven and not evidence.damaged
    first: list[tuple[Outcome, Reason]] = []
    if hit:
        text = "; ".join(dict.fromkeys(infra_text(record) for record in broken))
        first.append((Outcome.INFRA, Reason(rule=Rule.INFRASTRUCTURE, message=text)))
        verdict.log_tail = next((record.log_tail for record in broken if record.log_tail), [])
    if evidence.missing or lost:
        text = "; ".join([*evidence.missing, *lost])
        first.append((Outcome.INCOMPLETE, Reason(rule=Rule.EVIDENCE, message=text)))
    if first:
        # Without all samples, what was never seen and what is counted per cell says nothing; what was seen does.
        seen = {Rule.VERIFICATION_ERROR, Rule.HARD}
        findings = [finding for finding in findings if finding[1].rule in seen]
    sound = [reason.rule for _, reason in findings if not (hit and reason.rule is Rule.VERIFICATION_ERROR)]
    ordered = [*first, *findings]
    verdict.outcome = ordered[0][0] if ordered else Outcome.PASS
    verdict.failed = bool(sound)
    verdict.reasons = [reason for _, reason in ordered]
    _count(verdict, evidence)
    verdict.notes = [*(f"restricted: {what} ({by})" for by, what in cell.restricted.items()), *verdict.notes]
    verdict.wall = wall(believed(ledgers, plan.run_id, str(cell.id)))
    verdict.passed_again = bool(again) and not ordered
    for record in again:
        verdict.retried.append(f"the lease was created again after {infra_text(record)}; first try: {record.kept}")
    if verdict.passed_again and len(again) > cell.limits.recreations:
        verdict.outcome = Outcome.INFRA
        verdict.reasons = [Reason(rule=Rule.INFRASTRUCTURE, message=_passed_again(record)) for record in again]
        verdict.log_tail = again[0].log_tail
    retried = verdict.retry_count > 0 or verdict.passed_again
    verdict.passed_on_retry = verdict.outcome is Outcome.PASS and retried
    if broken and not hit:
        verdict.notes += [f"did not cost this cell anything: {infra_text(record)}" for record in broken]
    return verdict


def _not_applicable(verdict: CellVerdict, cell: PlannedCell, ledgers: Sequence[Ledger]) -> CellVerdict:
    verdict.outcome = Outcome.NOT_APPLICABLE
    verdict.reasons = [Reason(rule=Rule.NOT_APPLICABLE, message=cell.reason)]
    if ledgers:
        said = "the plan says that the cell cannot run, yet it has a ledger: plan and artifacts do not belong together"
        verdict.outcome = Outcome.INCOMPLETE
        verdict.reasons.insert(0, Reason(rule=Rule.EVIDENCE, message=said))
    return verdict


def _underneath(
    cell: PlannedCell, evidence: Evidence, lease: Sequence[Ledger], run_id: str
) -> tuple[list[InfraRecord | RecreatedRecord], list[RecreatedRecord], list[str]]:
    """What broke underneath the cell, how its lease was created again for it, and what ails the lease's own ledgers."""
    broken: list[InfraRecord | RecreatedRecord] = list(evidence.infra)
    again: list[RecreatedRecord] = []
    lost: list[str] = []
    for ledger in lease:
        problems = ledger_problems(ledger, run_id, lease_cell(cell.family))
        lost += problems.messages
        if problems.damaged:
            continue
        for record in ledger.records:
            if isinstance(record, RecreatedRecord) and str(cell.id) in record.cells:
                again.append(record)
            elif isinstance(record, InfraRecord | RecreatedRecord):
                broken.append(record)
    return broken, again, lost


def _passed_again(record: RecreatedRecord) -> str:
    return f"{infra_text(record)}; the cell passed when its lease was created again (first try: {record.kept})"


def _errors(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    errors = evidence.errors
    if not errors:
        return []
    stages = Counter(error.verification_error.stage for error in errors)
    where = "" if errors[0].sample_index is None else f"sample {errors[0].sample_index} "
    message = (
        f"{len(errors)} verification error{'s' * (len(errors) > 1)}"
        f" (stages: {', '.join(f'{stage} x{number}' for stage, number in stages.items())});"
        f" first: {where}{error_text(errors[0])}; completed_samples={len(evidence.samples)}"
    )
    model = all(error.model_incomplete for error in errors)
    outcome = Outcome.MODEL_INCOMPLETE if model else Outcome.VERIFIER_ERROR
    return [(outcome, Reason(rule=Rule.VERIFICATION_ERROR, message=message))]


def _samples(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    if evidence.samples or evidence.errors:
        return []
    message = "completed_samples=0: a cell in which nothing was driven to its end cannot pass"
    return [(Outcome.VERIFIER_ERROR, Reason(rule=Rule.SAMPLES, message=message))]


def _hard(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    hard = [sample for sample in evidence.samples if is_hard(sample)]
    if not hard:
        return []
    found = [(s, finding) for s in hard for finding in s.findings if finding.severity == "hard"]
    count = sum(max(s.hard_mismatch_count, sum(f.severity == "hard" for f in s.findings)) for s in hard)
    named = {name for s in hard for name in s.hard_mismatch_types}
    types = named | {f"{finding.check}:{finding.type}" for _, finding in found if finding.type not in named}
    message = (
        f"{count} hard mismatch{'es' * (count > 1)} in {len(hard)} of {len(evidence.samples)} samples"
        f" (types: {', '.join(sorted(types)) or 'not named'})"
    )
    if found:
        sample, first = found[0]
        turn = "" if first.turn is None else f" turn {first.turn}"
        message += f"; first: sample {sample.sample_index}{turn}: {first.message}"
    elif hard[0].hard_mismatch_example:
        example = ", ".join(f"{key}={value!r}" for key, value in hard[0].hard_mismatch_example.items())
        message += f"; first: sample {hard[0].sample_index}: {example}"
    return [(Outcome.HARD, Reason(rule=Rule.HARD, message=message))]


def _coverage(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    if not evidence.samples:
        return []
    problems = []
    required = Counter(cell.required_events)
    for sample in evidence.samples:
        lacking = required - Counter(sample.driver_events)
        if lacking:
            names = ", ".join(name if number == 1 else f"{name} x{number}" for name, number in lacking.items())
            problems.append(f"sample {sample.sample_index} lacks {names}")
    seen = {event for sample in evidence.samples for event in sample.driver_events}
    problems += [f"no sample shows {event}" for event in cell.required_once if event not in seen]
    if not problems:
        return []
    message = f"the cell does not cover what it must: {'; '.join(problems)}"
    return [(Outcome.VERIFIER_ERROR, Reason(rule=Rule.COVERAGE, message=message))]


def _soft(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    total = len(evidence.samples)
    reasons = []
    for rule, what, number, limit in (
        (Rule.SOFT, "differing assistant text", sum(map(is_soft, evidence.samples)), cell.limits.soft),
        (Rule.CONTENT, "differing assistant content", sum(map(has_content, evidence.samples)), cell.limits.content),
    ):
        if total and number / total > limit:
            message = f"{number} of {total} samples ({number / total:.2f}) have {what}; the limit is {limit:g}"
            reasons.append((Outcome.SOFT, Reason(rule=rule, message=message)))
    return reasons


def _retries(cell: PlannedCell, evidence: Evidence) -> list[tuple[Outcome, Reason]]:
    count = sum(number for sample in evidence.verdicts for number in sample.retries.values())
    if cell.limits.retries is None or count <= cell.limits.retries:
        return []
    message = f"{count} retries; the limit of the cell is {cell.limits.retries}"
    return [(Outcome.SOFT, Reason(rule=Rule.RETRIES, message=message))]


def _count(verdict: CellVerdict, evidence: Evidence) -> None:
    samples = evidence.verdicts
    verdict.samples = samples
    verdict.completed_samples = len(evidence.samples)
    verdict.turns = sum(sample.turns for sample in samples)
    verdict.seconds = sum(sample.seconds for sample in samples)
    verdict.prompt_tokens = sum(sample.prompt_tokens for sample in samples)
    verdict.completion_tokens = sum(sample.completion_tokens for sample in samples)
    verdict.retries = dict(sum((Counter(sample.retries) for sample in samples), Counter[str]()))
    if evidence.samples:
        verdict.soft_ratio = sum(map(is_soft, evidence.samples)) / len(evidence.samples)
        verdict.content_ratio = sum(map(has_content, evidence.samples)) / len(evidence.samples)
    verdict.faults = evidence.faults
    verdict.notes = evidence.notes
    verdict.retried = evidence.retried
