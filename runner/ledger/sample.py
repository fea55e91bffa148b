"""The record of one judged sample, from what the server said, what the agent did and what the oracle found.

One function for a sample that was just driven and for one that is judged again from its evidence, so that the two can
be compared field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from runner.agents.records import Mismatch, SessionView
from runner.agents.transcript import Transcript
from runner.ledger.records import Example, SampleRecord
from runner.ledger.records import Finding as FindingRecord
from runner.oracle.finding import Finding, Severity, TokenDiff
from runner.oracle.mismatch import ASSISTANT_TEXT, CHECK


def sample_record(
    view: SessionView,
    transcript: Transcript,
    findings: Sequence[Finding],
    *,
    sample_index: int,
    seconds: float,
    worker: int,
    instance_id: str | None,
) -> SampleRecord:
    """The terminal record. `seconds` is the time from opening the session to the end of judging."""
    hard = [finding for finding in findings if finding.severity is Severity.HARD]
    mismatches = view.metadata.tito_session_mismatch or []
    soft = [mismatch for mismatch in mismatches if mismatch.type == ASSISTANT_TEXT]
    return SampleRecord(
        sample_index=sample_index,
        driver_events=list(transcript.driver_events),
        had_assistant_mismatch=bool(soft),
        total_mismatches=sum(finding.severity is not Severity.NOTE for finding in findings),
        assistant_mismatch_count=len(soft),
        assistant_mismatch_example=_example(soft[0]) if soft else None,
        hard_mismatch_count=len(hard),
        hard_mismatch_types=sorted({type_name(finding) for finding in hard}),
        hard_mismatch_example={"type": type_name(hard[0]), "detail": hard[0].message} if hard else None,
        findings=[FindingRecord.model_validate(asdict(finding)) for finding in findings],
        turns=len(transcript.turns),
        retries=transcript.retries,
        seconds=seconds,
        prompt_tokens=sum(turn.prompt_tokens for turn in transcript.turns),
        completion_tokens=sum(turn.completion_tokens for turn in transcript.turns),
        seed=transcript.seed,
        stream=transcript.stream,
        session_id=transcript.session_id,
        worker=worker,
        instance_id=instance_id,
    )


def type_name(finding: Finding) -> str:
    """The server's own types keep their names; the oracle's are prefixed by the check."""
    return finding.type if finding.check == CHECK else f"{finding.check}:{finding.type}"


def from_record(finding: FindingRecord) -> Finding:
    """A finding as the oracle reported it, from the ledger."""
    diff = TokenDiff(**finding.diff.model_dump()) if finding.diff else None
    severity = Severity(finding.severity.value)
    return Finding(finding.check, finding.type, severity, finding.message, finding.turn, finding.role, diff)


def _example(mismatch: Mismatch) -> Example:
    return {
        "segment_index": mismatch.segment_index,
        "expected_text": mismatch.expected_text or "",
        "actual_text": mismatch.actual_text or "",
    }
