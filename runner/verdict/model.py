"""verdict.json: the outcome of every planned cell, why, and all that the reports show.

Reports read nothing else than this and the plan, so that whatever a person sees is also here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from runner.base.terms import ExitCode, Lane, Outcome
from runner.ledger.records import Finding
from runner.verdict.engine import EngineFacts

SCHEMA_VERSION = 2


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Span(_Model):
    """A stretch of wall-clock time; `seconds` is its length."""

    started_at: AwareDatetime
    ended_at: AwareDatetime
    seconds: Annotated[float, Field(ge=0)]


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
    worker: int = 0
    """The session-server worker that it was planned for; of a driven sample also the one that served it."""
    session_id: str = ""
    instance_id: str = ""
    """What the server that served it calls itself."""
    driver_events: list[str] = Field(default_factory=list)
    turns: int = 0
    retries: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0.0
    ended_at: AwareDatetime | None = None
    """When its terminal record was written."""
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
    """It passed, and not every turn was good at the first attempt, or its lease had to be created again."""
    passed_again: bool = False
    """Something underneath broke, the lease was created again, and then it passed; `infra` where that is not enough."""
    reasons: list[Reason] = Field(default_factory=list)
    planned_samples: int = 0
    completed_samples: int = 0
    samples: list[SampleVerdict] = Field(default_factory=list)
    turns: int = 0
    retries: dict[str, int] = Field(default_factory=dict)
    seconds: Annotated[float, Field(ge=0)] = 0.0
    """Sum over the samples, which may have run at the same time."""
    wall: Span | None = None
    """From the first to the last line of the cell's ledgers, None without any."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    soft_ratio: float = 0.0
    content_ratio: float = 0.0
    faults: list[str] = Field(default_factory=list)
    """Faults that were put in on purpose."""
    retried: list[str] = Field(default_factory=list)
    """Every attempt that was made again, in a few words, in the order of time."""
    notes: list[str] = Field(default_factory=list)
    log_tail: list[str] = Field(default_factory=list)
    """Last lines of the service that broke, for outcome `infra`."""
    artifacts: str = ""
    """Directory of the cell below the run's artifacts."""
    reproduce: str = ""
    """The one line that runs this cell again: from its record, or as it was planned where there is no record."""

    @property
    def retry_count(self) -> int:
        """Retries of all causes."""
        return sum(self.retries.values())


class Phase(_Model):
    """One step of a lease, as the host saw it begin or end."""

    phase: str
    detail: str = ""
    at: AwareDatetime
    seconds: float | None = None


class LaneTiming(_Model):
    """What one lane of a lease cost."""

    lane: Lane
    wall: Span
    """From the first to the last line of all its ledgers."""
    sample_seconds: Annotated[float, Field(ge=0)]
    """Sum over its samples."""


class LeaseTiming(_Model):
    """Where the time of one lease went. Seconds are None for what did not happen or was not recorded."""

    family: str
    wall: Span | None = None
    """From the first to the last line of the host's own ledger of the lease."""
    boot_seconds: float | None = None
    """Until engine and session servers were up."""
    verify_seconds: float | None = None
    """The runner container, from its creation to its end."""
    collect_seconds: float | None = None
    remove_seconds: float | None = None
    together: Span | None = None
    """All lanes, from the first line of the first to the last line of the last."""
    lanes: list[LaneTiming] = Field(default_factory=list)
    phases: list[Phase] = Field(default_factory=list)


class Shard(_Model):
    """One run of several that were merged into one verdict."""

    shard: str
    run_id: str
    directory: str
    """Below the directory of the merged run."""


class Verdict(_Model):
    """The whole run."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    exit_code: ExitCode
    """What the evidence amounts to, of an interrupted run that of what was done until then."""
    interrupted: bool = False
    """A signal ended the run before every lease was done: its process ended with 130."""
    problems: list[str] = Field(default_factory=list)
    """What is wrong with the run as a whole; each is missing evidence."""
    differences: list[str] = Field(default_factory=list)
    """Only of a replay: where it is not the recorded verdict, which the evidence then does not support."""
    cells: list[CellVerdict]
    leases: list[LeaseTiming] = Field(default_factory=list)
    engines: list[EngineFacts] = Field(default_factory=list)
    """What was found out about the engines, one per lease that could ask. Facts for people; no rule looks at them."""
    shards: list[Shard] = Field(default_factory=list)
    """The runs that were merged; empty for a run of its own."""

    def counts(self) -> dict[Outcome, int]:
        """How many cells have each outcome, outcomes that occur only."""
        return {
            outcome: number for outcome in Outcome if (number := sum(cell.outcome is outcome for cell in self.cells))
        }

    @property
    def passed(self) -> bool:
        """At least one cell ran, and every cell that could run passed."""
        return self.exit_code is ExitCode.OK
