"""The plan on a terminal: what runs, line by line; what does not, with its reason; and sums that are the plan's."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.base.settings import Settings
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan
from runner.report.planned import planned_lines, print_planned


def plan(**given: object) -> Plan:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return build_plan(Settings.model_validate(given), load_families(), run_id="run", now=now, versions={})


def rows(planned: Plan) -> list[list[str]]:
    """The cells of the table, row by row."""
    stream = io.StringIO()
    print_planned(planned, stream=stream)
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in stream.getvalue().splitlines() if "│" in line
    ]


def test_a_line_is_a_family_in_a_lane_with_its_scenarios_samples_and_workers() -> None:
    planned = plan(family="qwen3,glm47", engine="scripted", scenarios="baseline,max-tokens", samples=3, workers=3)
    assert rows(planned) == [
        [family, lane, "baseline, max-tokens", "6", "3"]
        for family in ("qwen3", "glm47")
        for lane in ("v1-openai", "v2-openai", "v2-anthropic")
    ]
    assert planned_lines(planned) == ["12 of 12 cells run, with 36 samples, seed 1; leases: 2 on the scripted engine"]


def test_many_scenarios_are_counted_and_workers_that_nobody_reaches_are_seen() -> None:
    (row,) = rows(plan(lanes="v1-openai", scenarios="all", workers=3))
    assert row[2] == "baseline and 9 more"
    (row,) = rows(plan(lanes="v1-openai", samples=2, workers=3))
    assert row[3:] == ["2", "2 of 3"]


def test_what_does_not_run_is_named_with_its_reason_and_is_in_no_line_of_the_table() -> None:
    planned = plan(family="all", lanes="v2-anthropic", seed=7)
    assert [row[0] for row in rows(planned)] == ["qwen3"]
    none, opted, last = planned_lines(planned)
    assert none.startswith("not applicable: qwen35/v2-anthropic/baseline and 5 more: there is no micro model")
    assert opted.startswith("not applicable: minimax_m27/v2-anthropic/baseline: the family opts out")
    assert last == "1 of 8 cells run, with 2 samples, seed 7; leases: 1 on the CPU"


def test_what_was_taken_out_and_what_is_in_other_shards_is_told() -> None:
    planned = plan(family="all", engine="gpu", shard="1/3", stream="never")
    *_, restricted, shard, last = planned_lines(planned)
    assert restricted == "restricted: no sample streams (STREAM=never)"
    assert shard == f"shard 1/3: {sum(map(len, planned.elsewhere.values()))} cells are in the other shards"
    assert last.endswith("leases: 1 on 2 GPUs, 1 on 4 GPUs")


def test_servers_that_already_run_are_told_from_those_that_would_be_started(tmp_path: Path) -> None:
    planned = plan(lanes="v1-openai", session_v1_url="http://there:8080", tokenizer=tmp_path)
    assert planned_lines(planned)[-1].endswith("leases: 1 on servers that already run")


@pytest.mark.parametrize("family", ["qwen3", "all"])
def test_the_sums_are_those_of_the_plan(family: str) -> None:
    planned = plan(family=family, engine="scripted", scenarios="all")
    assert sum(int(row[3]) for row in rows(planned)) == sum(len(cell.samples) for cell in planned.cells)
