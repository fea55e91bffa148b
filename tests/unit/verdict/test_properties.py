"""Whatever is done to the ledgers of a clean run, the gate does not pass it; and it never raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.base.terms import ExitCode, Outcome
from runner.verdict.model import Verdict

if TYPE_CHECKING:
    from conftest import World

RELAXED = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@RELAXED
@given(data=st.data())
def test_no_change_of_a_byte_is_overlooked(world: World, data: st.DataObject) -> None:
    whole = world.data.get("whole") or world.bytes_of(world.key)
    place = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    world.data = {world.key: whole[:place] + bytes([value]) + whole[place + 1 :]}
    verdict = world.verdict()
    assert verdict.cells[0].outcome is Outcome.INCOMPLETE
    assert verdict.exit_code is ExitCode.INCOMPLETE
    world.data = {}


@RELAXED
@given(data=st.data())
def test_no_cut_is_overlooked(world: World, data: st.DataObject) -> None:
    whole = world.bytes_of(world.key)
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start + 1, len(whole)))
    world.data = {world.key: (whole[:start] + whole[end:]) or b"\n"}
    assert world.verdict().exit_code is ExitCode.INCOMPLETE
    world.data = {}


@RELAXED
@given(data=st.data())
def test_no_order_no_repetition_and_no_loss_of_lines_is_overlooked(world: World, data: st.DataObject) -> None:
    lines = world.bytes_of(world.key).splitlines(keepends=True)
    mixed = data.draw(st.lists(st.sampled_from(lines), min_size=1, max_size=8).filter(lambda found: found != lines))
    world.data = {world.key: b"".join(mixed)}
    assert world.verdict().exit_code is not ExitCode.OK
    world.data = {}


KINDS = st.sampled_from(["clean", "hard", "soft", "error", "model", "infra", "missing", "twice"])


@pytest.mark.parametrize("trailer", [True, False])
@RELAXED
@given(kinds=st.tuples(KINDS, KINDS), lease=st.booleans())
def test_outcome_exit_code_and_failure_agree_for_every_mix_of_samples(
    world: World, trailer: bool, kinds: tuple[str, str], lease: bool
) -> None:
    world.data.clear()
    world.records = {world.key: []}
    for index, kind in enumerate(kinds):
        clean = world.sample(world.cell, index)
        world.records[world.key] += {
            "clean": [clean],
            "hard": [world.hard(index)],
            "soft": [world.sample(world.cell, index, had_assistant_mismatch=True)],
            "error": [world.error(index)],
            "model": [world.error(index, model=True)],
            "infra": [world.infra(index=index)],
            "missing": [],
            "twice": [clean, clean],
        }[kind]
    if lease:
        world.break_lease()
    if not trailer:
        world.data[world.key] = b"".join(world.bytes_of(world.key).splitlines(keepends=True)[:-1])
    verdict = world.verdict()
    cell = verdict.cells[0]
    complete = trailer and not set(kinds) & {"missing", "twice", "infra"}
    assert (cell.outcome is Outcome.PASS) is (complete and set(kinds) == {"clean"})
    assert (verdict.exit_code is ExitCode.OK) is (cell.outcome is Outcome.PASS)
    assert ("hard" in kinds) <= cell.failed
    assert cell.failed is (verdict.exit_code is ExitCode.VERIFICATION_FAILED)
    assert cell.failed <= bool(set(kinds) & {"hard", "soft", "error", "model"})
    lost = set(kinds) & {"infra"} or (lease and not complete)
    assert (cell.outcome is Outcome.INFRA) is bool(lost)
    assert cell.reasons or cell.outcome is Outcome.PASS
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
