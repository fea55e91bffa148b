"""Typed progress events: what happened, as it happens. Consumers (console, log lines) are elsewhere.

In the runner container each event is one JSON line on stdout; the host reads the lines back from the container's log
and hands them to the same consumers as its own events. Events are for watching: nothing is decided from them, the
verdict comes from plan and ledger alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class PhaseEvent(_Event):
    """A step of the stack: preparing, building, starting, ready, collecting, removing."""

    kind: Literal["phase"] = "phase"
    lease: str
    phase: str
    detail: str = ""
    seconds: float | None = None


class CellStarted(_Event):
    """A cell begins to be driven."""

    kind: Literal["cell-started"] = "cell-started"
    cell: str
    samples: int


class TurnDone(_Event):
    """One request/response pair of a sample is complete."""

    kind: Literal["turn"] = "turn"
    cell: str
    sample: int
    turn: int
    action: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float


class RetryEvent(_Event):
    """An attempt was not good enough and is made again from the same parent."""

    kind: Literal["retry"] = "retry"
    cell: str
    sample: int
    turn: int
    cause: str
    attempt: int


class SampleDone(_Event):
    """A sample reached its terminal record."""

    kind: Literal["sample"] = "sample"
    cell: str
    sample: int
    ok: bool
    turns: int
    message: str = ""


class CellDone(_Event):
    """All samples of a cell reached their terminal record."""

    kind: Literal["cell-done"] = "cell-done"
    cell: str
    seconds: float


class NoteEvent(_Event):
    """Something a person should know."""

    kind: Literal["note"] = "note"
    message: str
    level: Literal["info", "warning", "error"] = "info"


Event = PhaseEvent | CellStarted | TurnDone | RetryEvent | SampleDone | CellDone | NoteEvent
Emit = Callable[[Event], None]

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])


def to_line(event: Event) -> str:
    """One JSON line, without the newline."""
    return event.model_dump_json()


def from_line(line: str) -> Event | None:
    """The event on this line of a container's log, or None where the line is something else."""
    if not line.startswith("{"):
        return None
    try:
        return _ADAPTER.validate_json(line)
    except ValidationError:
        return None
