"""A recorded run of other scenarios is judged again like any other: identically, and not once it has been altered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from runner.base.terms import ExitCode, Lane, Outcome
from runner.cli.record import plan_again, recorded_cell
from runner.cli.replay import replay, replayed
from runner.verdict.model import Verdict
from tests.unit.agents.scenarios.stage import planned
from tests.unit.cli.conftest import RUN_ID, Run, drive

CELLS = (
    ("parallel-tools", Lane.V1_OPENAI),
    ("arguments", Lane.V2_ANTHROPIC),
    ("list-content", Lane.V2_ANTHROPIC),
    ("volatile-system", Lane.V2_OPENAI),
    ("cache-control", Lane.V2_ANTHROPIC),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One cell of each content scenario."""
    path = tmp_path_factory.mktemp("scenarios") / RUN_ID
    return drive(path, tuple(Lane), cells=[planned(scenario, lane) for scenario, lane in CELLS])


@pytest.fixture
def run(whole: Run, tmp_path: Path) -> Run:
    """The same, to be altered."""
    return whole.copy(tmp_path / RUN_ID)


def test_the_untouched_run_gives_the_identical_verdict(run: Run) -> None:
    assert replay(run.path) is ExitCode.OK
    _, verdict = replayed(run.path)
    assert verdict == Verdict.model_validate_json((run.path / "verdict.json").read_bytes())
    assert {cell.outcome for cell in verdict.cells} == {Outcome.PASS}


def _swap_results(body: Any) -> None:
    messages = body["snapshot"]["records"][-1]["request"]["messages"]
    messages[-2:] = messages[:-3:-1]


def _other_id(body: Any) -> None:
    body["snapshot"]["records"][-1]["request"]["input_ids"][-9] += 1


def _other_parent(body: Any) -> None:
    body["snapshot"]["metadata"]["tree"]["nodes"][2]["parent"] = 1


def _lost_part(body: Any) -> None:
    body["snapshot"]["records"][0]["request"]["messages"][1]["content"].pop()


@pytest.mark.parametrize(
    ("scenario", "lane", "change"),
    [
        ("parallel-tools", Lane.V1_OPENAI, _swap_results),
        ("arguments", Lane.V2_ANTHROPIC, _other_id),
        ("list-content", Lane.V2_ANTHROPIC, _lost_part),
        ("volatile-system", Lane.V2_OPENAI, _other_parent),
        ("cache-control", Lane.V2_ANTHROPIC, _other_id),
    ],
)
def test_an_altered_one_fails(run: Run, scenario: str, lane: Lane, change: Callable[[Any], None]) -> None:
    path = run.path / "cells" / "qwen3" / lane / scenario / "sessions" / "0.json"
    body = orjson.loads(path.read_bytes())
    change(body)
    path.write_bytes(orjson.dumps(body))
    assert replay(run.path) is ExitCode.VERIFICATION_FAILED
    _, verdict = replayed(run.path)
    assert [cell.scenario for cell in verdict.cells if cell.outcome is Outcome.HARD] == [scenario]


def test_a_recorded_cell_is_planned_again_with_all_that_its_scenario_asks_for(run: Run) -> None:
    recorded, lease, cell = recorded_cell(run.path, "qwen3/v2-anthropic/cache-control")
    again = plan_again(recorded, lease, cell, run_id="again", now=recorded.created_at, versions={})
    assert again.cells == [planned("cache-control", Lane.V2_ANTHROPIC)]
