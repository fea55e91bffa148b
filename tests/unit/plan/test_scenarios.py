"""Scenarios in the plan: all of them, some by name, one cell, and the reason for each cell that cannot run."""

from __future__ import annotations

import pytest

from runner.base.settings import variables
from runner.base.terms import Lane, Role
from runner.plan.families import load_families
from runner.plan.scenarios import SCENARIOS, Scenario, samples_pairs
from tests.unit.plan.test_build import plan, refused


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


def test_the_baseline_is_the_default_and_the_first_of_all() -> None:
    assert {cell.scenario for cell in plan().cells} == {"baseline"}
    assert next(iter(SCENARIOS)) == "baseline"


def test_all_plans_every_scenario_in_every_lane_lane_by_lane() -> None:
    cells = plan(scenarios="all").cells
    assert [(cell.lane, cell.scenario) for cell in cells] == [(lane, name) for lane in Lane for name in SCENARIOS]
    assert all(cell.about for cell in cells)


def test_the_baseline_is_planned_the_same_beside_others_as_alone() -> None:
    alone = plan().cells
    beside = [cell for cell in plan(scenarios="all").cells if cell.scenario == "baseline"]
    assert beside == alone


def test_some_are_planned_in_the_order_of_the_list_whatever_the_order_asked_for() -> None:
    cells = plan(scenarios="arguments,parallel-tools", lanes="v2-openai").cells
    assert [cell.scenario for cell in cells] == ["parallel-tools", "arguments"]


def test_a_cell_alone_is_planned_as_it_is_among_all() -> None:
    (alone,) = plan(cell="qwen3/v2-anthropic/cache-control").cells
    assert alone in plan(scenarios="all").cells
    assert alone.required_events == ["cache_mark"] * 4


def test_a_lane_in_which_a_scenario_makes_no_sense_is_planned_with_the_reason() -> None:
    cells = {cell.lane: cell for cell in plan(scenarios="cache-control").cells}
    assert [cells[lane].applicable for lane in Lane] == [False, False, True]
    assert "cache_control is a field of the Anthropic wire" in cells[Lane.V1_OPENAI].reason
    assert not cells[Lane.V1_OPENAI].samples


def test_asking_by_name_for_what_cannot_run_is_an_error() -> None:
    (problem,) = refused(cell="qwen3/v1-openai/cache-control")
    assert "cannot run: cache_control is a field of the Anthropic wire" in problem
    problems = refused(scenarios="cache-control", lanes="v1-openai,v2-openai")
    assert any(problem.startswith("SCENARIOS='cache-control' cannot run: ") for problem in problems)


def test_one_sample_is_driven_unless_a_number_is_asked_for() -> None:
    assert [len(cell.samples) for cell in plan(scenarios="arguments").cells] == [1, 1, 1]
    assert [len(cell.samples) for cell in plan(scenarios="arguments", samples=3).cells] == [3, 3, 3]


def test_the_lanes_of_one_scenario_do_not_all_have_the_same_wire_mode() -> None:
    assert {cell.samples[0].stream for cell in plan(scenarios="list-content").cells} == {True, False}


def test_a_family_that_may_not_append_a_role_is_not_asked_to() -> None:
    family = load_families()["qwen3"].model_copy(update={"append_roles": [Role.TOOL, Role.USER]})
    scenario = SCENARIOS["parallel-tools"]
    assert "may not append 'assistant', which parallel-tools needs" in scenario.why_not(family, Lane.V2_OPENAI)
    assert not SCENARIOS["arguments"].why_not(family, Lane.V2_OPENAI)


def test_pairs_are_sampled_only_where_the_wire_has_patterns_and_the_syntax_is_known() -> None:
    families = load_families()
    assert samples_pairs(families["qwen3"], Lane.V1_OPENAI)
    assert not samples_pairs(families["qwen3"], Lane.V2_ANTHROPIC)
    assert not samples_pairs(families["glm47"], Lane.V2_OPENAI)
    events = {cell.lane: cell.required_events for cell in plan(scenarios="parallel-tools", family="qwen3").cells}
    assert events[Lane.V1_OPENAI].count("parallel_results") == 3
    assert events[Lane.V2_ANTHROPIC].count("parallel_results") == 2


def test_content_that_differs_is_tolerated_in_no_scenario_more_than_the_family_tolerates_it() -> None:
    families = load_families()
    for cell in plan(scenarios="all").cells:
        assert cell.limits.content == families[cell.family].content_limit


def test_a_heavier_scenario_is_expected_to_take_longer() -> None:
    from runner.plan.expected import lease_seconds

    def seconds(**settings: object) -> float:
        made = plan(**settings)
        return lease_seconds(made.leases[0], made.cells)

    assert seconds(scenarios="all") > seconds(scenarios="baseline,arguments") > seconds()


def test_names_are_names_and_every_reason_is_a_sentence_for_people() -> None:
    for name, scenario in SCENARIOS.items():
        assert isinstance(scenario, Scenario)
        assert name == scenario.name
        assert scenario.about
        assert all(len(reason) > 20 for reason in scenario.refuses.values())
