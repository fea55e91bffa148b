"""plan.json: every cell that must be accounted for, with all that is needed to run it and to judge it.

The plan is the one input that host, runner container and gate share. A cell that will not run is in the plan as well,
with `applicable = false` and the reason; the gate reports it as such and never as passed.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from runner.base import values
from runner.base.settings import EngineKind
from runner.base.terms import CellId, Difference, Lane, Role

__all__ = [
    "SCHEMA_VERSION",
    "EngineKind",
    "FailureMode",
    "Limits",
    "Matcher",
    "Plan",
    "PlannedCell",
    "PlannedLease",
    "PlannedSample",
    "SystemExpectation",
]

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


ShardName = Annotated[str, AfterValidator(values.shard)]
"""`i/n` with 1 <= i <= n."""


class FailureMode(StrEnum):
    """What a `tool_result` step does when the last assistant turn holds no tool call."""

    ROLLBACK = "rollback"
    APPEND_TOOL = "append_tool"
    APPEND_USER = "append_user"


class SystemExpectation(StrEnum):
    """Whether the Anthropic lane must, or must not, put a system message into the middle of a conversation."""

    REQUIRED = "required"
    FORBIDDEN = "forbidden"


class Matcher(StrEnum):
    """How a replayed assistant message is compared with the stored one."""

    STRICT = "strict"
    LOOSE_TOOL_CALL = "loose_tool_call"


class PlannedSample(_Model):
    """One session to drive. `stream` is its wire mode; both modes occur in a run that is not restricted.

    `worker` is the session-server worker that it is driven at, from 0; a session stays where it was opened.
    """

    index: Annotated[int, Field(ge=0)]
    seed: Annotated[int, Field(ge=0)]
    stream: bool
    worker: Annotated[int, Field(ge=0)] = 0


class Limits(_Model):
    """What the gate tolerates in a cell. Ratios are samples with a mismatch / samples.

    `retries` is the highest number of retries in the whole cell, None for no limit. `recreations` is how often the
    cell's lease may have been created again, after something underneath broke, for the cell to pass all the same.
    """

    soft: Annotated[float, Field(ge=0, le=1)]
    content: Annotated[float, Field(ge=0, le=1)] = 0.0
    retries: Annotated[int, Field(ge=0)] | None = None
    recreations: Annotated[int, Field(ge=0)] = 0


class PlannedCell(_Model):
    """One cell with everything that drives and judges it."""

    family: str
    lane: Lane
    scenario: str
    about: str = ""
    """The scenario in one line, for people."""
    applicable: bool = True
    reason: str = ""
    samples: list[PlannedSample] = Field(default_factory=list)
    restricted: dict[str, str] = Field(default_factory=dict)
    """What a person took out of the drive: the variable that did, `NAME=value`, -> what, in words."""
    cycles: Annotated[int, Field(ge=1)] = 1
    append_roles: list[Role] = Field(default_factory=list)
    failure_mode: FailureMode = FailureMode.ROLLBACK
    max_trim_tokens: Annotated[int, Field(ge=0)] = 0
    temperature: Annotated[float, Field(ge=0)] = 0.7
    max_tokens: Annotated[int, Field(ge=1)] = 256
    turn_timeout: Annotated[float, Field(gt=0)] = 180.0
    tool_call_parser: str = ""
    message_matcher: Matcher = Matcher.STRICT
    may_differ: list[Difference] = Field(default_factory=list)
    """What two ways of one script may write differently into a prompt of this family."""
    intermediate_system: SystemExpectation | None = None
    """Only in an Anthropic lane: what the route must offer, compared with `/health` before any request."""
    limits: Limits
    required_events: list[str] = Field(default_factory=list)
    """Driver events that every sample must show, each as often as it is listed."""
    required_once: list[str] = Field(default_factory=list)
    """Driver events that at least one sample of the cell must show."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Expected time beside a baseline cell of as many samples; only compared, see `runner.plan.expected`."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        """Paths are made of the names; raises ValueError where one is no name."""
        CellId(self.family, self.lane, self.scenario)
        return self

    @property
    def id(self) -> CellId:
        """family/lane/scenario."""
        return CellId(self.family, self.lane, self.scenario)


class PlannedLease(_Model):
    """One Compose project: a family on the CPU or on a set of GPUs."""

    family: str
    model: str
    """Model path inside the engine container, or the hub id on GPU."""
    tokenizer: str
    """Directory that holds tokenizer.json and the chat template, as session servers and runner see it."""
    tito_model: str
    reasoning_parser: str
    tool_call_parser: str
    context_length: Annotated[int, Field(ge=1)]
    engine: EngineKind
    gpus: Annotated[int, Field(ge=0)] = 0
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    expert_parallel: Annotated[int, Field(ge=1)] = 1
    speculative: str = ""
    """`EAGLE <num steps>-<eagle top-k>-<draft tokens>`, or empty for none."""
    engine_args: list[str] = Field(default_factory=list)
    """Further launch arguments of the engine that this family needs."""
    urls: dict[str, str] = Field(default_factory=dict)
    """Service -> base URL of servers that already run; empty where they are started for the lease."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Session-server processes per version."""
    ports: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Session service -> first and last port that its workers are published on; empty where Docker chooses."""
    deprecated: bool = False
    ready_timeout: Annotated[float, Field(gt=0)]
    """Seconds from start to a proven one-token generation."""


class Plan(_Model):
    """The whole run."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    created_at: datetime
    seed: Annotated[int, Field(ge=0)]
    shard: ShardName = "1/1"
    elsewhere: dict[ShardName, list[str]] = Field(default_factory=dict)
    """Shard, as i/n -> its cells, for the other parts of the whole plan: one that never ran can be accounted for."""
    stall_timeout: Annotated[float, Field(gt=0)]
    """Seconds without any progress in a lane after which it is ended."""
    timeout: Annotated[float, Field(gt=0)]
    """Seconds for the whole verification of a lease, once the stack is ready."""
    leases: list[PlannedLease]
    cells: list[PlannedCell]
    versions: dict[str, str] = Field(default_factory=dict)

    def cells_of(self, family: str) -> list[PlannedCell]:
        """The cells of one lease, in plan order."""
        return [cell for cell in self.cells if cell.family == family]
