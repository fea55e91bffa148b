"""Two verdicts on one run: equal or not, and every difference is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

import pytest

from runner.base.terms import ExitCode, Outcome
from runner.verdict.compare import differences
from runner.verdict.engine import EngineFacts
from runner.verdict.gate import with_problems
from runner.verdict.model import CellVerdict, SampleState, SampleVerdict, Shard, Span, Verdict

if TYPE_CHECKING:
    from conftest import World


def changed(value: object) -> object:
    """Another value of the same type."""
    match value:
        case Enum():
            return next(other for other in type(value) if other is not value)
        case bool():
            return not value
        case int() | float():
            return value + 1
        case datetime():
            return value + timedelta(seconds=1)
        case Span():
            return value.model_copy(update={"seconds": value.seconds + 1})
        case list():
            return value[:-1] if value else ["more"]
        case dict():
            return {**value, "more": 1}
    return f"{value}, or not"


@pytest.fixture
def verdict(world: World) -> Verdict:
    """A verdict with something in every field that holds models."""
    world.records[world.key][0] = world.hard(0)
    shard = Shard(shard="1/2", run_id="run", directory="shards/1-of-2")
    engine = EngineFacts(
        family="qwen3",
        version="0.5.23",
        model=None,
        asked_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        capabilities=[],
        determinism=None,
    )
    return world.verdict().model_copy(update={"shards": [shard], "engines": [engine]})


def test_equal_verdicts_differ_in_nothing(three: World) -> None:
    assert differences(three.verdict(), three.verdict()) == []


@pytest.mark.parametrize("name", sorted(set(Verdict.model_fields) - {"cells"}))
def test_no_property_of_a_run_can_differ_unseen(verdict: Verdict, name: str) -> None:
    other = verdict.model_copy(update={name: changed(getattr(verdict, name))})
    assert differences(verdict, other)


@pytest.mark.parametrize("name", sorted(set(CellVerdict.model_fields) - {"samples", "reproduce"}))
def test_no_property_of_a_cell_can_differ_unseen(verdict: Verdict, name: str) -> None:
    cell = verdict.cells[0].model_copy(update={name: changed(getattr(verdict.cells[0], name))})
    assert differences(verdict, verdict.model_copy(update={"cells": [cell]}))


@pytest.mark.parametrize("name", sorted(SampleVerdict.model_fields))
def test_no_property_of_a_sample_can_differ_unseen(verdict: Verdict, name: str) -> None:
    first, *rest = verdict.cells[0].samples
    sample = first.model_copy(update={name: changed(getattr(first, name))})
    cell = verdict.cells[0].model_copy(update={"samples": [sample, *rest]})
    assert differences(verdict, verdict.model_copy(update={"cells": [cell]}))


def test_where_the_artifacts_lie_is_no_difference(verdict: Verdict) -> None:
    cell = verdict.cells[0].model_copy(update={"reproduce": "make repro RUN=elsewhere CELL=it"})
    assert differences(verdict, verdict.model_copy(update={"cells": [cell]})) == []


def test_a_difference_names_cell_sample_and_both_states(world: World) -> None:
    before = world.verdict()
    world.records[world.key][1] = world.hard(1)
    assert differences(before, world.verdict()) == [
        f"{world.key} sample 1: recorded clean, now hard (the newline is lost)",
        f"{world.key}: recorded pass, now hard (failed)",
    ]
    assert differences(world.verdict(), before)[-1] == f"{world.key}: recorded hard (failed), now pass"


def test_a_cell_that_is_in_one_verdict_only_is_named(three: World) -> None:
    verdict = three.verdict()
    fewer = verdict.model_copy(update={"cells": verdict.cells[:2]})
    assert differences(verdict, fewer) == ["qwen3/v2-anthropic/baseline is in the recorded verdict only"]
    assert differences(fewer, verdict) == ["qwen3/v2-anthropic/baseline is in the replayed verdict only"]


def test_differences_keep_a_run_from_passing_and_hide_no_failure(world: World) -> None:
    verdict = world.verdict()
    assert verdict.exit_code is ExitCode.OK
    assert with_problems(verdict, []) == verdict
    assert with_problems(verdict, [], ["it differs"]).exit_code is ExitCode.INCOMPLETE
    assert with_problems(verdict, [], ["it differs"]).differences == ["it differs"]
    assert with_problems(verdict, ["it is lost"]).exit_code is ExitCode.INCOMPLETE
    world.records[world.key][1] = world.hard(1)
    failed = with_problems(world.verdict(), [], ["it differs"])
    assert failed.exit_code is ExitCode.VERIFICATION_FAILED
    assert failed.cells[0].outcome is Outcome.HARD
    assert failed.cells[0].samples[1].state is SampleState.HARD
