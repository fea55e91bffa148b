"""What a person sees while a run goes on, and what a log gets instead."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from runner.base.events import CellDone, CellStarted, Event, NoteEvent, PhaseEvent, RetryEvent, SampleDone, TurnDone
from runner.base.settings import Settings
from runner.plan.model import Plan
from runner.report.console import LiveTable, console, line_consumer, progress
from runner.report.lines import event_line

CELL = "qwen3/v1-openai/baseline"
TURN = TurnDone(
    cell=CELL,
    sample=0,
    turn=3,
    action="tool_result",
    finish_reason="stop",
    prompt_tokens=210,
    completion_tokens=31,
    seconds=0.42,
)

RETRY = RetryEvent(cell=CELL, sample=1, turn=2, cause="length", attempt=1)
FAILED = SampleDone(cell=CELL, sample=0, ok=False, turns=4, message="a\nb")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (PhaseEvent(lease="qwen3", phase="up", detail="engine", seconds=46.2), "qwen3: up: engine (46.2 s)"),
        (CellStarted(cell=CELL, samples=1), f"{CELL}: started, 1 sample"),
        (TURN, f"{CELL} sample 0: turn 3 tool_result -> stop, 210+31 tokens, 0.4 s"),
        (
            RetryEvent(cell=CELL, sample=1, turn=2, cause="length", attempt=1),
            f"{CELL} sample 1: turn 2 retry 1 after length",
        ),
        (SampleDone(cell=CELL, sample=0, ok=True, turns=15), f"{CELL} sample 0: done after 15 turns"),
        (
            SampleDone(cell=CELL, sample=0, ok=False, turns=4, message="a\nb"),
            f"{CELL} sample 0: FAILED after 4 turns: a | b",
        ),
        (CellDone(cell=CELL, seconds=185), f"{CELL}: driven in 3 min 05 s"),
        (NoteEvent(message="hello"), "hello"),
        (NoteEvent(message="a \x1b[31mred\x1b[0m\x07 note", level="warning"), "warning: a red\ufffd note"),
    ],
)
def test_each_event_is_one_plain_line(event: Event, line: str) -> None:
    assert event_line(event) == line


def test_a_log_gets_one_line_per_event_with_the_time() -> None:
    stream = io.StringIO()
    times = iter([10.0, 12.5, 75.0])
    emit = line_consumer(stream, clock=lambda: next(times))
    emit(NoteEvent(message="one"))
    emit(NoteEvent(message="two"))
    assert stream.getvalue() == "[    2.5 s] one\n[   65.0 s] two\n"


def test_lines_go_to_stderr_so_that_results_stay_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    line_consumer()(NoteEvent(message="hello"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_what_is_no_terminal_gets_lines() -> None:
    stream = io.StringIO()
    with progress([CELL], stream=stream) as emit:
        emit(TURN)
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("settings", [{"ci": "1"}, {"github_actions": "true"}])
def test_ci_gets_lines_even_on_a_terminal(plan: Plan, settings: dict[str, str]) -> None:
    stream = Terminal()
    with console(Settings.model_validate(settings), plan, stream) as emit:
        emit(TURN)
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_a_live_table_of_the_cells_that_run(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with console(Settings(), plan, stream) as emit:
        assert isinstance(emit, LiveTable)
        emit(TURN)
        emit(NoteEvent(message="something happened"))
    assert "something happened" in stream.getvalue()
    assert "qwen3/v2-openai/baseline" in stream.getvalue()
    assert "minimax_m27/v2-anthropic/baseline" not in stream.getvalue()


def shown(table: LiveTable) -> str:
    screen = Console(file=io.StringIO(), width=200)
    with screen.capture() as capture:
        screen.print(table)
    return capture.get()


def row(table: LiveTable, cell: str = CELL) -> list[str]:
    (line,) = [line for line in shown(table).splitlines() if cell in line]
    return [part.strip() for part in line.strip().strip("│").split("│")]


def test_the_table_counts_turns_tokens_retries_and_time_per_cell() -> None:
    now = [100.0]
    table = LiveTable([CELL, "qwen3/v2-openai/baseline"], clock=lambda: now[0])
    assert row(table) == [CELL, "waiting", "", "", "", "", "", ""]
    table(CellStarted(cell=CELL, samples=2))
    table(TURN)
    table(TURN)
    table(RetryEvent(cell=CELL, sample=0, turn=4, cause="length", attempt=1))
    now[0] = 107.0
    assert row(table) == [CELL, "running", "0/2", "2", "420", "62", "1", "7.0 s"]
    table(SampleDone(cell=CELL, sample=0, ok=False, turns=2, message="bad"))
    table(CellDone(cell=CELL, seconds=9.5))
    assert row(table) == [CELL, "driven", "1/2", "2", "420", "62", "1", "9.5 s"]


def test_failures_phases_and_notes_are_said_above_the_table() -> None:
    table = LiveTable([CELL])
    said: list[str] = []
    table.say = said.append
    table(PhaseEvent(lease="qwen3", phase="starting"))
    table(SampleDone(cell=CELL, sample=0, ok=True, turns=2))
    table(SampleDone(cell=CELL, sample=1, ok=False, turns=2, message="bad"))
    table(NoteEvent(message="note"))
    assert said == ["qwen3: starting", f"{CELL} sample 1: FAILED after 2 turns: bad", "note"]
    assert "qwen3: starting" in shown(table)


def test_a_cell_that_was_not_announced_gets_its_row() -> None:
    table = LiveTable([])
    table(TURN)
    assert CELL in shown(table)
