"""Many shards, one verdict: what is missing is named, what contradicts is refused, nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from runner.base.errors import ConfigurationError
from runner.base.settings import EngineKind
from runner.base.terms import ExitCode, Outcome
from runner.ledger.records import PhaseRecord
from runner.plan.model import Plan
from runner.verdict.engine import EngineFacts
from runner.verdict.merge import Part, conflicts, merge
from runner.verdict.model import Verdict

if TYPE_CHECKING:
    from conftest import MakeWorld, World

FAMILIES = "qwen3,glm47,qwen35"


@pytest.fixture
def shards(make_world: MakeWorld) -> list[World]:
    """Three shards of one plan, each with a family of its own."""
    return [make_world(family=FAMILIES, engine="gpu", samples=1, shard=f"{index}/3") for index in (1, 2, 3)]


def part(world: World, *, run_id: str = "") -> Part:
    """The shard's run as its machine judged it; its run id is its own."""
    verdict = world.verdict()
    name = run_id or f"run-{world.plan.shard[0]}"
    plan = world.plan.model_copy(update={"run_id": name})
    engines = [_facts(lease.family) for lease in world.plan.leases]
    return Part(f"shards/{world.plan.shard[0]}", plan, verdict.model_copy(update={"run_id": name, "engines": engines}))


def _facts(family: str) -> EngineFacts:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return EngineFacts(
        family=family, version="1", model=None, asked_at=at, seconds=0.0, capabilities=[], determinism=None
    )


def merged(worlds: list[World]) -> tuple[Plan, Verdict]:
    return merge([part(world) for world in worlds])


def test_one_shard_that_was_interrupted_makes_the_whole_an_interrupted_run(shards: list[World]) -> None:
    assert not merged(shards)[1].interrupted
    shards[1].records[f"lease:{shards[1].cell.family}"] = [PhaseRecord(phase="interrupted")]
    parts = [part(world) for world in shards]
    assert [one.verdict.interrupted for one in parts].count(True) == 1
    assert merge(parts)[1].interrupted


def test_differences_that_a_replay_found_in_a_shard_keep_the_whole_from_passing(shards: list[World]) -> None:
    first, *others = [part(world) for world in shards]
    assert merge([first, *others])[1].passed
    differs = first.verdict.model_copy(update={"differences": ["it differs"]})
    _, verdict = merge([Part(first.directory, first.plan, differs), *others])
    assert (verdict.differences, verdict.problems) == (["shard 1/3: it differs"], [])
    assert verdict.exit_code is ExitCode.INCOMPLETE


def test_all_shards_together_account_for_every_cell_of_the_whole_plan(
    shards: list[World], make_world: MakeWorld
) -> None:
    plan, verdict = merged(shards)
    whole = make_world(family=FAMILIES, engine="gpu", samples=1)
    assert {str(cell.id) for cell in plan.cells} == {str(cell.id) for cell in whole.plan.cells}
    assert {cell.cell: cell.outcome for cell in verdict.cells} == {
        cell.cell: cell.outcome for cell in whole.verdict().cells
    }
    assert {lease.family for lease in verdict.leases} == {lease.family for lease in plan.leases} != set()
    assert [facts.family for facts in verdict.engines] == [lease.family for lease in plan.leases]
    assert verdict.exit_code is ExitCode.OK
    assert verdict.problems == []
    assert [(shard.shard, shard.run_id) for shard in verdict.shards] == [
        ("1/3", "run-1"),
        ("2/3", "run-2"),
        ("3/3", "run-3"),
    ]
    assert verdict.cells[0].artifacts.startswith("shards/1/cells/")


def test_the_order_in_which_shards_are_given_does_not_matter(shards: list[World]) -> None:
    assert merged(shards) == merged(shards[::-1])


def test_a_missing_shard_is_incomplete_and_named_with_every_cell_that_it_held(shards: list[World]) -> None:
    plan, verdict = merged([shards[0], shards[2]])
    assert verdict.exit_code is ExitCode.INCOMPLETE
    lost = [str(cell.id) for cell in shards[1].plan.cells]
    family = shards[1].plan.cells[0].family
    assert verdict.problems == [
        "shard 2/3 is missing: none of the merged runs is it, and its 3 cells are not accounted for: "
        f"{family} (3 cells); run it with SHARD=2/3 and merge again"
    ]
    unknown = [cell for cell in verdict.cells if cell.outcome is Outcome.INCOMPLETE]
    assert [cell.cell for cell in unknown] == lost == plan.elsewhere["2/3"]
    assert not any(cell.failed for cell in unknown)
    assert {cell.reasons[0].message for cell in unknown} == {"it belongs to shard 2/3, which is missing"}
    assert len(verdict.cells) == 9, "every cell of the whole plan is accounted for"


def test_a_missing_shard_of_plans_that_do_not_know_of_each_other_is_named_by_its_number(shards: list[World]) -> None:
    parts = [part(shards[0]), part(shards[2])]
    old = [Part(p.directory, p.plan.model_copy(update={"elsewhere": {}}), p.verdict) for p in parts]
    _, verdict = merge(old)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert verdict.problems == [
        "shard 2/3 is missing: none of the merged runs is it, and its cells are not accounted for"
    ]


def test_shards_of_other_selections_are_refused_though_each_is_sound(
    shards: list[World], make_world: MakeWorld
) -> None:
    """The second machine was given fewer lanes: its cells would pass for all that the shard has."""
    fewer = make_world(family=FAMILIES, engine="gpu", samples=1, shard="2/3", lanes="v1-openai,v2-openai")
    problems = conflicts([shards[0].plan, fewer.plan.model_copy(update={"run_id": "fewer"}), shards[2].plan])
    assert any(
        problem.startswith("shard 2/3 (run fewer) is not the part that run run knows") and "v2-anthropic" in problem
        for problem in problems
    )
    assert conflicts([world.plan for world in shards]) == []


def test_a_failure_in_one_shard_is_not_hidden_by_a_missing_one(shards: list[World]) -> None:
    world = shards[0]
    world.records[world.key][0] = world.hard(0)
    _, verdict = merged([world, shards[2]])
    assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
    assert verdict.counts()[Outcome.HARD] == 1


def test_a_problem_of_one_shard_is_a_problem_of_all(shards: list[World]) -> None:
    stray = shards[0].records[shards[0].key]
    shards[1].records[shards[0].key] = stray
    _, verdict = merged(shards)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert verdict.problems[0].startswith("shard 2/3: there is a ledger of ")


def test_a_run_that_is_no_shard_is_a_whole_of_one(make_world: MakeWorld) -> None:
    _, verdict = merged([make_world(lanes="v1-openai")])
    assert verdict.exit_code is ExitCode.OK


def test_plans_that_contradict_are_refused_with_every_problem(shards: list[World]) -> None:
    one, two, three = (world.plan for world in shards)
    other = two.model_copy(
        update={
            "run_id": "other",
            "seed": 9,
            "timeout": 1.0,
            "stall_timeout": 2.0,
            "versions": {"sglang": "0.0.1"},
            "leases": [lease.model_copy(update={"workers": 3, "engine": EngineKind.CPU}) for lease in two.leases],
            "cells": [*two.cells, one.cells[0]],
            "created_at": two.created_at + timedelta(hours=1),
        }
    )
    text = "\n".join(conflicts([one, other, three]))
    for said in ("SEED", "TIMEOUT", "STALL_TIMEOUT", "ENGINE", "WORKERS", "versions"):
        assert f"{said} is not the same: " in text
    assert "9 in other" in text
    assert f"cell {one.cells[0].id} is planned in the shards 1/3, 2/3" in text
    with pytest.raises(ConfigurationError) as caught:
        merge([Part("a", one, shards[0].verdict()), Part("b", other, shards[1].verdict())])
    assert any(problem.startswith("shard 2/3 (run other) is not the part that ") for problem in caught.value.problems)
    assert len(caught.value.problems) == 8


def test_one_shard_twice_and_shards_of_other_numbers_are_refused(shards: list[World], make_world: MakeWorld) -> None:
    half = make_world(family=FAMILIES, engine="gpu", samples=1, shard="2/2")
    problems = conflicts([shards[0].plan, shards[0].plan.model_copy(update={"run_id": "again"}), half.plan])
    assert any(problem == "shard 1/3 is there 2 times: runs run, again" for problem in problems)
    assert any(problem.startswith("the number of shards is not the same: 3 in run, again") for problem in problems)


def test_machines_may_differ_in_what_does_not_touch_the_verification(shards: list[World]) -> None:
    plans = [
        world.plan.model_copy(update={"versions": {"tito-e2e": "1", "python": f"3.1{index}"}})
        for index, world in enumerate(shards)
    ]
    assert conflicts(plans) == []


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no run is given"):
        merge([])
