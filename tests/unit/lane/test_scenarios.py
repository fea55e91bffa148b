"""Cells of several scenarios in one lane: a few at a time, in plan order, and none without its records."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from runner.base.events import CellDone, CellStarted, Event, TurnDone
from runner.base.terms import ExitCode, Lane
from runner.lane.verify import CELLS_AT_ONCE
from runner.ledger.records import InfraRecord, SampleRecord
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.scenarios.stage import planned as cell_of
from tests.unit.lane.test_verify import environment, planned, run

CONTENT = ("parallel-tools", "arguments", "list-content", "volatile-system")


def test_the_cells_of_a_lane_are_driven_a_few_at_a_time_in_plan_order(tmp_path: Path) -> None:
    cells = [cell_of(scenario, Lane.V2_OPENAI) for scenario in CONTENT]
    with environment("v2") as (_, urls):
        result = run(planned(cells), urls, tmp_path)
    assert result.code is ExitCode.OK
    for cell in cells:
        (record,) = result.terminals(cell)
        assert isinstance(record, SampleRecord)
        assert record.hard_mismatch_count == 0
    started = [event.cell for event in result.events if isinstance(event, CellStarted)]
    assert started == [str(cell.id) for cell in cells]
    running, most = 0, 0
    for event in result.events:
        running += isinstance(event, CellStarted) - isinstance(event, CellDone)
        most = max(most, running)
    assert most == CELLS_AT_ONCE


def test_an_interruption_leaves_records_of_the_cells_that_had_not_begun(tmp_path: Path) -> None:
    cells = [cell_of(scenario, Lane.V1_OPENAI) for scenario in CONTENT]

    def interrupt(event: Event) -> None:
        if isinstance(event, TurnDone):
            os.kill(os.getpid(), signal.SIGTERM)

    with environment("v1", faults=[Fault(Kind.HANG, turn=2, times=None)]) as (_, urls):
        result = run(planned(cells), urls, tmp_path, interrupt)
    assert result.code is ExitCode.INTERRUPTED
    records = [result.terminals(cell)[0] for cell in cells]
    assert all(isinstance(record, InfraRecord) for record in records)
    assert [r.message for r in records[2:] if isinstance(r, InfraRecord)] == ["interrupted; sample 0 had not begun"] * 2
