"""A record of a sample, as a ledger holds it."""

from __future__ import annotations

from datetime import datetime

from runner.ledger.records import SampleRecord


def sample(seconds: float = 1.0, at: datetime | None = None) -> SampleRecord:
    """A sample that passed; `at` is when it was written, where that was told."""
    record = SampleRecord(
        sample_index=0,
        driver_events=["rollback"],
        had_assistant_mismatch=False,
        total_mismatches=0,
        assistant_mismatch_count=0,
        hard_mismatch_count=0,
        hard_mismatch_types=[],
        turns=1,
        seconds=seconds,
        prompt_tokens=1,
        completion_tokens=1,
        seed=1,
        stream=True,
        session_id="s",
    )
    return record if at is None else record.model_copy(update={"at": at})
