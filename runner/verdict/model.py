"""verdict.json: the outcome of every planned cell, why, and all that the reports show.

Reports read nothing else than this and the plan, so that whatever a person sees is also here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from runner.base.terms import ExitCode, Lane, Outcome
from runner.ledger.records import Finding

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Rule(StrEnum):
    """The rules of the gate, in the order in which they decide."""

    NOT_APPLICABLE = "not-applicable"
    EVIDENCE = "evidence"
    INFRASTRUCTURE = "infrastructure"
    VERIFICATION_ERROR = "verification-error"
    SAMPLES = "samples"
    HARD = "hard"
    COVERAGE = "coverage"
    SOFT = "soft"
    CONTENT = "content"
    RETRIES = "retries"


class Reason(_Model):
    """Why a cell did not pass: a rule that it broke, in a sentence for people."""

    rule: Rule
    message: str


class SampleState(StrEnum):
    """What became of one planned sample."""

    CLEAN = "clean"
    SOFT = "soft"
    HARD = "hard"
    ERROR = "error"
    INFRA = "infra"
    MISSING = "missing"


class SampleVerdict(_Model):
    """One planned sample as its ledger tells it. Numbers are 0 where no sample record says them."""

    index: int
    state: SampleState
    message: str = ""
    seed: int
    stream: bool
    session_id: str = ""
    driver_events: list[str] = Field(default_factory=list)
    turns: int = 0
    retries: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    findings: list[Finding] = Field(default_factory=list)


class CellVerdict(_Model):
    """One planned cell. The first reason is the one that gave the outcome; the others hold as well."""

    cell: str
    family: str
    lane: Lane
    scenario: str
    outcome: Outcome
    failed: bool
    """A check failed in evidence that is sound. True also beside `infra` and `incomplete`: they never hide it."""
    passed_on_retry: bool = False
    """It passed, and not every turn was good at the first attempt."""
    reasons: list[Reason] = Field(default_factory=list)
    planned_samples: int = 0
    completed_samples: int = 0
    samples: list[SampleVerdict] = Field(default_factory=list)
    turns: int = 0
    retries: dict[str, int] = Field(default_factory=dict)
    seconds: Annotated[float, Field(ge=0)] = 0.0
    """Sum over the samples, which may have run at the same time."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    soft_ratio: float = 0.0
    content_ratio: float = 0.0
    faults: list[str] = Field(default_factory=list)
    """Faults that were put in on purpose."""
    notes: list[str] = Field(default_factory=list)
    log_tail: list[str] = Field(default_factory=list)
    """Last lines of the service that broke, for outcome `infra`."""
    artifacts: str = ""
    """Directory of the cell below the run's artifacts."""
    reproduce: str = ""
    """The one line that runs this cell again as it was planned."""

    @property
    def retry_count(self) -> int:
        """Retries of all causes."""
        return sum(self.retries.values())


class Verdict(_Model):
    """The whole run."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    exit_code: ExitCode
    problems: list[str] = Field(default_factory=list)
    """What is wrong with the run as a whole; each is missing evidence."""
    cells: list[CellVerdict]

    def counts(self) -> dict[Outcome, int]:
        """How many cells have each outcome, outcomes that occur only."""
        return {
            outcome: number for outcome in Outcome if (number := sum(cell.outcome is outcome for cell in self.cells))
        }

    @property
    def passed(self) -> bool:
        """At least one cell ran, and every cell that could run passed."""
        return self.exit_code is ExitCode.OK
