"""The lines of a ledger. One record is one line of strict JSON (no NaN, no infinities).

A file is `header`, then any number of records, then `trailer`. Exactly one *terminal* record ends every planned
sample: `sample` (driven to the end and judged), `verification_error` (a check or the driver failed) or `infra`
(something underneath broke). Field names that upstream's sidecar has are kept, so that the two can be compared.

Every record says when it was written. The time is the header's plus what a monotonic clock counted since, so that a
clock that is set while a run goes on neither bends a duration nor puts lines out of order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, model_validator

SCHEMA_VERSION = 2

EXAMPLE_CHARS = 300
"""Characters that are kept of each text of a mismatch example."""
MESSAGE_CHARS = 1000
"""Characters that are kept of the message of an error."""


def clip(text: str, limit: int) -> str:
    """`text` cut to `limit` characters."""
    return text[:limit]


def _whole(value: object) -> object:
    """Replace lone surrogates, which no strict JSON reader takes, by `?`; a model may well print them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def _clip_example(value: object) -> object:
    if isinstance(value, dict):
        return {key: clip(item, EXAMPLE_CHARS) if isinstance(item, str) else item for key, item in value.items()}
    return value


def _clip_message(value: object) -> object:
    return clip(value, MESSAGE_CHARS) if isinstance(value, str) else value


# A record must never be lost because a text in it is too long: what goes in is cut, not refused.
Example = Annotated[dict[str, str | int], BeforeValidator(_clip_example)]
Message = Annotated[str, BeforeValidator(_clip_message), Field(max_length=MESSAGE_CHARS)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _take_any_text(cls, data: object) -> object:
        return _whole(data)


class Written(_Record):
    """A record between header and trailer. `at` is set by the writer; a line without it is not one of ours."""

    at: AwareDatetime | None = None


class Severity(StrEnum):
    """`hard` fails the cell; `soft` counts against a limit; `note` is reported."""

    HARD = "hard"
    SOFT = "soft"
    NOTE = "note"


class TokenDiff(_Record):
    """The first place where two token sequences differ, with what a person needs to see it.

    `expected_ids` and `actual_ids` are the ids of the window, at most 17 each; texts are decoded from them.
    """

    token_index: int
    expected_id: int | None
    actual_id: int | None
    expected_ids: list[int]
    actual_ids: list[int]
    expected_text: str
    actual_text: str


class Finding(_Record):
    """One violation that the oracle saw. `check` is the oracle's part (`prefix`, `counts`, ...)."""

    check: str
    type: str
    severity: Severity
    message: str
    turn: int | None = None
    role: str | None = None
    diff: TokenDiff | None = None


class Header(_Record):
    """First line."""

    kind: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    run: str
    cell: str
    """family/lane/scenario, or `lease:<family>` for the host's own ledger of a lease."""
    writer: str
    started_at: AwareDatetime


class SampleRecord(Written):
    """A sample that was driven to its end and judged. Terminal."""

    kind: Literal["sample"] = "sample"
    sample_index: int
    driver_events: list[str]
    had_assistant_mismatch: bool
    total_mismatches: int
    assistant_mismatch_count: int
    assistant_mismatch_example: Example | None = None
    hard_mismatch_count: int
    hard_mismatch_types: list[str]
    hard_mismatch_example: Example | None = None
    findings: list[Finding] = Field(default_factory=list)
    turns: int
    retries: dict[str, int] = Field(default_factory=dict)
    """Retries by cause."""
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    seed: int
    stream: bool
    session_id: str
    worker: int = 0
    """The session-server worker that it was driven at, as the plan counts them."""
    instance_id: str | None = None
    """What that worker calls itself."""


class ErrorBody(_Record):
    """What went wrong; message is cut to 1,000 characters."""

    stage: str
    type: str
    message: Message


class VerificationErrorRecord(Written):
    """A check or the driver failed; written before the error is raised again. Terminal for its sample."""

    kind: Literal["verification_error"] = "verification_error"
    sample_index: int | None
    verification_error: ErrorBody
    model_incomplete: bool = False
    driver_events: list[str] = Field(default_factory=list)


class InfraRecord(Written):
    """Container, engine, network or GPU broke. Terminal for its sample when `sample_index` is set."""

    kind: Literal["infra"] = "infra"
    sample_index: int | None = None
    service: str
    message: str
    exit_code: int | None = None
    oom_killed: bool | None = None
    log_tail: list[str] = Field(default_factory=list)


class RecreatedRecord(Written):
    """Something underneath broke, and the lease was created once more for the cells that this cost.

    It stands in the host's ledger of the lease. What broke is told as in an `infra` record.
    """

    kind: Literal["recreated"] = "recreated"
    service: str
    message: str
    exit_code: int | None = None
    oom_killed: bool | None = None
    log_tail: list[str] = Field(default_factory=list)
    cells: list[str]
    """The cells that are driven again; all others keep what was seen of them."""
    kept: str
    """Where the evidence of the try before lies, below the run's directory."""


class AttemptRecord(Written):
    """One request that was made again: a retry and its cause."""

    kind: Literal["attempt"] = "attempt"
    sample_index: int
    turn: int
    attempt: int
    cause: str
    seed: int | None = None
    finish_reason: str | None = None


class FaultRecord(Written):
    """A fault that was put in on purpose."""

    kind: Literal["fault"] = "fault"
    name: str
    detail: str = ""


class NoteRecord(Written):
    """Anything else worth keeping."""

    kind: Literal["note"] = "note"
    message: str


class RedactedRecord(Written):
    """Secrets were taken out of the lines above after the writer had closed the ledger."""

    kind: Literal["redacted"] = "redacted"
    written_sha256: str
    """What the writer's own trailer said of its lines."""


class PhaseRecord(Written):
    """A step of a lease that began or ended at this moment; `seconds` where whoever says it has measured one."""

    kind: Literal["phase"] = "phase"
    phase: str
    detail: Message = ""
    seconds: float | None = None


class Trailer(_Record):
    """Last line. `records` counts all lines before it, the header included; `sha256` is over those bytes."""

    kind: Literal["trailer"] = "trailer"
    records: int
    sha256: str
    ended_at: AwareDatetime


Body = (
    SampleRecord
    | VerificationErrorRecord
    | InfraRecord
    | RecreatedRecord
    | AttemptRecord
    | FaultRecord
    | NoteRecord
    | RedactedRecord
    | PhaseRecord
)
"""What stands between header and trailer."""

LedgerRecord = Header | Body | Trailer

RECORD_ADAPTER: TypeAdapter[LedgerRecord] = TypeAdapter(Annotated[LedgerRecord, Field(discriminator="kind")])
