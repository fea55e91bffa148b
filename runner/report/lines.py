"""Each event as one plain line: for CI logs, and for the notes under a live table."""

from __future__ import annotations

from runner.base.events import (
    CellDone,
    CellStarted,
    Event,
    NoteEvent,
    PhaseEvent,
    RetryEvent,
    SampleDone,
    TurnDone,
)
from runner.report.text import duration, plain


def event_line(event: Event) -> str:
    """The line, without a newline; newlines inside become ` | `."""
    return " | ".join(part for part in plain(_line(event)).splitlines() if part.strip())


def _line(event: Event) -> str:
    match event:
        case PhaseEvent():
            took = "" if event.seconds is None else f" ({duration(event.seconds)})"
            detail = f": {event.detail}" if event.detail else ""
            return f"{event.lease}: {event.phase}{detail}{took}"
        case CellStarted():
            return f"{event.cell}: started, {event.samples} sample{'s' * (event.samples != 1)}"
        case TurnDone():
            return (
                f"{event.cell} sample {event.sample}: turn {event.turn} {event.action} -> {event.finish_reason},"
                f" {event.prompt_tokens}+{event.completion_tokens} tokens, {duration(event.seconds)}"
            )
        case RetryEvent():
            return f"{event.cell} sample {event.sample}: turn {event.turn} retry {event.attempt} after {event.cause}"
        case SampleDone():
            ended = "done" if event.ok else "FAILED"
            said = f": {event.message}" if event.message else ""
            return f"{event.cell} sample {event.sample}: {ended} after {event.turns} turns{said}"
        case CellDone():
            return f"{event.cell}: driven in {duration(event.seconds)}"
        case NoteEvent():
            return event.message if event.level == "info" else f"{event.level}: {event.message}"
