"""Shows a run while it goes on: a live table for a person, one plain line per event for a log.

Everything goes to standard error, so that what a command prints as its result stays alone on standard output. Events
may come from several threads at once.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runner.base.events import (
    CellDone,
    CellStarted,
    Emit,
    Event,
    NoteEvent,
    PhaseEvent,
    RetryEvent,
    SampleDone,
    TurnDone,
)
from runner.base.settings import Settings
from runner.plan.model import Plan
from runner.report.lines import event_line
from runner.report.text import duration

Clock = Callable[[], float]
_REFRESHES_PER_SECOND = 4


def line_consumer(stream: TextIO | None = None, clock: Clock = time.monotonic) -> Emit:
    """A consumer that writes each event as a line with the seconds since now. `stream` is stderr by default."""
    begun = clock()
    lock = threading.Lock()

    def emit(event: Event) -> None:
        # Looked up late, so that a test or a caller that replaces sys.stderr is honoured.
        with lock:
            print(f"[{clock() - begun:7.1f} s] {event_line(event)}", file=stream or sys.stderr, flush=True)

    return emit


@contextmanager
def console(settings: Settings, plan: Plan, stream: TextIO | None = None) -> Iterator[Emit]:
    """The consumer for a run of this plan, for the length of the run. CI gets lines even on a terminal."""
    cells = [str(cell.id) for cell in plan.cells if cell.applicable]
    with progress(cells, plain=settings.ci or settings.github_actions, stream=stream) as emit:
        yield emit


@contextmanager
def progress(cells: Sequence[str], *, plain: bool = False, stream: TextIO | None = None) -> Iterator[Emit]:
    """The right consumer for where the output goes, for the length of a run.

    Args:
        cells: the cells that will be driven, for the rows of the table.
        plain: lines even on a terminal (CI).
        stream: stderr by default.
    """
    target = stream or sys.stderr
    screen = Console(file=target)
    if plain or not screen.is_terminal:
        yield line_consumer(target)
        return
    table = LiveTable(cells)
    with Live(table, console=screen, refresh_per_second=_REFRESHES_PER_SECOND, transient=True) as live:
        table.say = lambda line: live.console.print(Text(line))
        yield table


@dataclass
class _Row:
    state: str = "waiting"
    samples: int = 0
    done: int = 0
    failed: int = 0
    turns: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    started: float | None = None
    seconds: float | None = None


class LiveTable:
    """An Emit that keeps one row per cell; rich draws it. Phases and notes are printed above the table by `say`."""

    def __init__(self, cells: Sequence[str], clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows = {cell: _Row() for cell in cells}
        self._phase = ""
        self.say: Callable[[str], None] = lambda line: None

    def __call__(self, event: Event) -> None:
        """Take one event in."""
        with self._lock:
            self._take(event)
        if isinstance(event, PhaseEvent | NoteEvent) or (isinstance(event, SampleDone) and not event.ok):
            self.say(event_line(event))

    def __rich__(self) -> Table:
        """The table as it stands."""
        with self._lock:
            table = Table(title=self._phase or None, title_justify="left", expand=False)
            table.add_column("cell", no_wrap=True)
            table.add_column("state", no_wrap=True)
            for name in ("samples", "turns", "prompt tokens", "sampled", "retries", "elapsed"):
                table.add_column(name, justify="right", no_wrap=True)
            for cell, row in self._rows.items():
                table.add_row(cell, *self._cells(row))
            return table

    def _cells(self, row: _Row) -> list[Text | str]:
        style = "red" if row.failed else {"running": "cyan", "driven": "green"}.get(row.state, "dim")
        elapsed = row.seconds
        if elapsed is None and row.started is not None:
            elapsed = self._clock() - row.started
        return [
            Text(row.state, style=style),
            f"{row.done}/{row.samples}" if row.samples else "",
            str(row.turns) if row.turns else "",
            str(row.prompt_tokens) if row.turns else "",
            str(row.completion_tokens) if row.turns else "",
            Text(str(row.retries), style="yellow" if row.retries else "") if row.turns else "",
            duration(elapsed) if elapsed is not None else "",
        ]

    def _take(self, event: Event) -> None:
        if isinstance(event, PhaseEvent):
            self._phase = event_line(event)
        elif isinstance(event, NoteEvent):
            pass
        else:
            row = self._rows.setdefault(event.cell, _Row())
            match event:
                case CellStarted():
                    row.state, row.samples, row.started = "running", event.samples, self._clock()
                case TurnDone():
                    row.turns += 1
                    row.prompt_tokens += event.prompt_tokens
                    row.completion_tokens += event.completion_tokens
                case RetryEvent():
                    row.retries += 1
                case SampleDone():
                    row.done += 1
                    row.failed += not event.ok
                case CellDone():
                    row.state, row.seconds = "driven", event.seconds
