"""Where the time went: wall clock of cells, lanes and leases from the clocks of their ledgers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.base.terms import ExitCode, Lane
from runner.ledger.records import Body, PhaseRecord
from runner.verdict.model import LeaseTiming

if TYPE_CHECKING:
    from conftest import World

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When every ledger of these runs was begun."""


def at(world: World, lane: Lane, *seconds: float) -> None:
    """The samples of this lane end at these seconds after the ledger's header."""
    cell = next(cell for cell in world.plan.cells if cell.lane is lane)
    world.records[str(cell.id)] = [
        world.sample(cell, index, at=NOW + timedelta(seconds=second), seconds=second)
        for index, second in enumerate(seconds)
    ]


def phases(world: World, **seconds: float) -> None:
    """The host saw these steps of the lease at these seconds."""
    records: list[Body] = [
        PhaseRecord(phase=name, at=NOW + timedelta(seconds=second)) for name, second in seconds.items()
    ]
    world.records["lease:qwen3"] = records


def timing(world: World) -> LeaseTiming:
    (lease,) = world.verdict().leases
    return lease


def test_a_cell_is_timed_from_its_first_to_its_last_line_beside_the_sum_over_its_samples(world: World) -> None:
    at(world, Lane.V1_OPENAI, 7, 12)
    world.kill(world.key)
    cell = world.judged()
    assert cell.wall is not None
    assert (cell.wall.seconds, cell.seconds) == (12, 19)
    assert [sample.ended_at for sample in cell.samples] == [NOW + timedelta(seconds=s) for s in (7, 12)]


def test_that_lanes_ran_at_the_same_time_can_be_computed(three: World) -> None:
    for lane, seconds in ((Lane.V1_OPENAI, (10, 20)), (Lane.V2_OPENAI, (11, 22)), (Lane.V2_ANTHROPIC, (5, 9))):
        at(three, lane, *seconds)
        three.kill(f"qwen3/{lane}/baseline")
    found = timing(three)
    assert [(lane.lane, lane.wall.seconds, lane.sample_seconds) for lane in found.lanes] == [
        (Lane.V1_OPENAI, 20, 30),
        (Lane.V2_OPENAI, 22, 33),
        (Lane.V2_ANTHROPIC, 9, 14),
    ]
    assert found.together is not None
    assert found.together.seconds == 22, "the sum of the lanes would be 51"


def test_a_lease_is_timed_by_the_steps_that_its_host_wrote_down(world: World) -> None:
    phases(world, starting=0, up=46, ready=47, verified=61, collecting=61.5, removing=67)
    found = timing(world)
    assert (found.boot_seconds, found.verify_seconds, found.collect_seconds) == (46, 15, 5.5)
    assert [phase.phase for phase in found.phases] == ["starting", "up", "ready", "verified", "collecting", "removing"]
    assert found.wall is not None
    assert (found.remove_seconds, found.wall.seconds) == (1, 68)


def test_a_lease_that_was_created_again_is_timed_by_its_last_try(world: World) -> None:
    phases(world, starting=0, up=46, verified=61, collecting=61.5, removing=67)
    world.recreate(world.key, after=70)
    later = [("starting", 71), ("up", 101), ("verified", 121), ("collecting", 121), ("removing", 125)]
    world.records["lease:qwen3"] += [PhaseRecord(phase=name, at=NOW + timedelta(seconds=at)) for name, at in later]
    found = timing(world)
    assert (found.boot_seconds, found.verify_seconds, found.collect_seconds) == (30, 20, 4)


def test_what_did_not_happen_has_no_figure_and_no_figure_decides_anything(world: World) -> None:
    phases(world, starting=0, collecting=30, removing=31)
    found = timing(world)
    assert (found.boot_seconds, found.verify_seconds, found.collect_seconds) == (None, None, 1)
    assert world.verdict().passed


def test_a_cell_without_ledger_and_a_lease_without_host_have_no_times(world: World) -> None:
    del world.records[world.key]
    assert world.judged().wall is None
    assert timing(world) == LeaseTiming(family="qwen3")


@pytest.mark.parametrize("line", [0, -1])
def test_a_clock_that_was_edited_gives_no_time_and_no_crash(world: World, line: int) -> None:
    lines = world.bytes_of(world.key).splitlines(keepends=True)
    lines[line] = lines[line].replace(b"2026-01-02", b"2036-01-02" if line == 0 else b"2016-01-02")
    world.data[world.key] = b"".join(lines)
    assert world.judged().wall is None
    assert not world.verdict().passed


def test_an_interrupt_is_told_beside_the_exit_code_that_the_evidence_has(world: World) -> None:
    key = "lease:qwen3"
    phases(world, starting=0, up=46)
    assert not world.verdict().interrupted
    phases(world, starting=0, up=46, interrupted=50)
    world.kill(key)
    verdict = world.verdict()
    assert (verdict.interrupted, verdict.exit_code) == (True, ExitCode.INCOMPLETE)
    said = "; ".join(reason.message for reason in verdict.cells[0].reasons)
    assert "the run was interrupted before this lease was done" in said
    assert "trailer" not in said
    world.records[world.key][1] = world.hard(1)
    verdict = world.verdict()
    assert (verdict.interrupted, verdict.exit_code) == (True, ExitCode.VERIFICATION_FAILED)


def test_a_ledger_that_is_not_believed_interrupts_nothing(world: World) -> None:
    phases(world, starting=0, interrupted=50)
    assert world.verdict().interrupted
    world.data["lease:qwen3"] = world.bytes_of("lease:qwen3").replace(b'"run":"run"', b'"run":"another"')
    assert not world.verdict().interrupted
