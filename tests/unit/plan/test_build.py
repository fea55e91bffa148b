"""The plan: every cell is in it, what runs is fixed by it, and what cannot run says why."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.base.errors import ConfigurationError
from runner.base.settings import MOST_CYCLES, MOST_SAMPLES, MOST_WORKERS, Settings, variables
from runner.base.terms import CellId, Lane
from runner.plan.build import BUILT_LANES, build_plan, new_run_id, plan_lease, prepare_plan, sample_seed
from runner.plan.families import DEFAULT_FILE, load_families
from runner.plan.model import EngineKind, Matcher, Plan, SystemExpectation

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVERY_LANE = frozenset(Lane)
V1_ONLY = frozenset({Lane.V1_OPENAI})
"""What a version that drives one lane would pass."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


def plan(built: frozenset[Lane] = EVERY_LANE, **settings: object) -> Plan:
    return build_plan(
        Settings.model_validate(settings), load_families(), run_id="run", now=NOW, versions={"sglang": "x"}, built=built
    )


def refused(built: frozenset[Lane] = EVERY_LANE, **settings: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        plan(built, **settings)
    return caught.value.problems


def test_the_default_plan_is_qwen3_in_all_lanes_and_unbuilt_lanes_say_so() -> None:
    made = plan(V1_ONLY)
    assert [str(cell.id) for cell in made.cells] == [f"qwen3/{lane}/baseline" for lane in Lane]
    for cell in made.cells:
        assert cell.applicable is (cell.lane in V1_ONLY)
        assert bool(cell.reason) is not cell.applicable
        assert bool(cell.samples) is cell.applicable
    assert [lease.family for lease in made.leases] == ["qwen3"]


def test_this_version_drives_every_lane() -> None:
    assert BUILT_LANES == EVERY_LANE
    assert all(cell.applicable for cell in plan(BUILT_LANES).cells)


def test_the_same_arguments_give_the_same_plan() -> None:
    assert plan(family="all", seed=7) == plan(family="all", seed=7)
    assert plan(seed=7) != plan(seed=8)


def test_a_cell_planned_alone_is_driven_as_in_the_whole_matrix() -> None:
    whole = plan(family="all", engine="gpu", samples=5, seed=3)
    for cell in whole.cells:
        if cell.applicable:
            alone = plan(cell=str(cell.id), engine="gpu", samples=5, seed=3)
            assert alone.cells == [cell]


@given(seed=st.integers(0, 2**63 - 1), index=st.integers(0, 10_000))
def test_sample_seeds_leave_room_for_retries(seed: int, index: int) -> None:
    value = sample_seed(seed, CellId("qwen3", Lane.V1_OPENAI), index)
    assert 0 <= value < 2**31 - 8 * 1_000_000
    assert value == sample_seed(seed, CellId("qwen3", Lane.V1_OPENAI), index)


def test_no_two_samples_of_a_run_share_a_seed() -> None:
    made = plan(family="all", engine="gpu", samples=50)
    seeds = [sample.seed for cell in made.cells for sample in cell.samples]
    assert len(set(seeds)) == len(seeds)


def test_both_wire_modes_occur_in_a_cell() -> None:
    for cell in plan().cells:
        assert {sample.stream for sample in cell.samples} == {True, False}


def test_required_events_follow_the_append_roles() -> None:
    cells = {str(cell.id): cell for cell in plan(family="all", engine="gpu").cells}
    qwen3 = cells["qwen3/v1-openai/baseline"]
    assert sorted(qwen3.required_events) == ["append_assistant", "append_system", "append_user", "rollback"]
    assert qwen3.required_once == ["append_tool"]
    assert sorted(cells["qwen35/v2-openai/baseline"].required_events) == ["append_assistant", "append_user", "rollback"]


def test_an_anthropic_cell_asks_for_all_three_rounds_and_the_system_message_only_where_it_is_required() -> None:
    cells = {str(cell.id): cell for cell in plan(family="all", engine="gpu").cells}
    glm47, qwen35 = cells["glm47/v2-anthropic/baseline"], cells["qwen35/v2-anthropic/baseline"]
    assert len(qwen35.required_events) == 9
    assert qwen35.required_events.count("anthropic_tool_result_string") == 2
    assert qwen35.required_events.count("anthropic_tool_result_list") == 1
    assert glm47.required_events.count("anthropic_system") == 1
    assert glm47.required_once == []
    assert glm47.intermediate_system is SystemExpectation.REQUIRED
    assert glm47.message_matcher is Matcher.LOOSE_TOOL_CALL
    assert cells["glm47/v2-openai/baseline"].message_matcher is Matcher.STRICT
    assert cells["glm47/v2-openai/baseline"].intermediate_system is None


def test_each_wire_format_has_its_own_soft_limit() -> None:
    cells = {str(cell.id): cell for cell in plan(family="all", engine="gpu").cells}
    assert cells["qwen36/v2-openai/baseline"].limits.soft == 0.2
    assert cells["qwen36/v2-anthropic/baseline"].limits.soft == 1.0
    assert all(cell.limits.content == 0 for cell in cells.values())


def test_minimax_opts_out_of_anthropic_with_its_reason() -> None:
    cells = {str(cell.id): cell for cell in plan(family="all", engine="gpu").cells}
    cell = cells["minimax_m27/v2-anthropic/baseline"]
    assert not cell.applicable
    assert "opts out" in cell.reason
    assert "forced tool call" in cell.reason


def test_on_the_cpu_a_family_without_micro_model_is_not_applicable_and_gets_no_lease() -> None:
    made = plan(family="all")
    assert [lease.family for lease in made.leases] == ["qwen3"]
    assert len(made.cells) == 8 * 3
    assert all("micro model" in cell.reason or "opts out" in cell.reason for cell in made.cells if not cell.applicable)


def test_a_gpu_lease_carries_what_the_engine_needs() -> None:
    leases = {lease.family: lease for lease in plan(family="all", engine="gpu").leases}
    deepseek = leases["deepseekv4"]
    assert (deepseek.gpus, deepseek.tensor_parallel, deepseek.expert_parallel) == (4, 4, 4)
    assert "--speculative-algorithm" in deepseek.engine_args
    assert deepseek.speculative == "EAGLE 2-1-3"
    assert "--cuda-graph-backend-prefill" in leases["inkling"].engine_args
    assert leases["inkling"].context_length == 32768
    assert leases["qwen3"].engine_args == []
    assert leases["minimax_m27"].deprecated


def test_a_cpu_lease_uses_the_micro_model_and_no_gpu_setting() -> None:
    (lease,) = plan().leases
    assert (lease.model, lease.gpus, lease.tensor_parallel, lease.engine_args) == ("/models/qwen3", 0, 1, [])
    assert lease.engine is EngineKind.CPU


def test_nothing_of_the_gpu_engine_reaches_a_cpu_lease() -> None:
    lease = plan_lease(Settings(), "glm47", load_families()["glm47"])
    assert (lease.speculative, lease.engine_args, lease.gpus, lease.expert_parallel) == ("", [], 0, 1)


def test_explicit_numbers_win_over_the_family() -> None:
    made = plan(samples=3, cycles=5, ready_timeout=9, timeout=8, stall_timeout=7, workers=2)
    assert [len(cell.samples) for cell in made.cells] == [3, 3, 3]
    assert {cell.cycles for cell in made.cells} == {5}
    assert (made.leases[0].ready_timeout, made.timeout, made.stall_timeout, made.leases[0].workers) == (9, 8, 7, 2)


@pytest.mark.parametrize(
    ("built", "settings", "said"),
    [
        (EVERY_LANE, {"family": "nope"}, "FAMILY='nope': no such family; allowed: qwen3, qwen35"),
        (EVERY_LANE, {"scenarios": "chaos"}, "SCENARIOS='chaos': no such scenario; allowed: baseline"),
        (EVERY_LANE, {"cell": "nope/v1-openai"}, "no such family 'nope'"),
        (EVERY_LANE, {"cell": "qwen3/v1-openai/chaos"}, "no such scenario"),
        (EVERY_LANE, {"family": "glm47"}, "FAMILY='glm47' cannot run: there is no micro model"),
        (EVERY_LANE, {"family": "qwen3,glm47"}, "FAMILY='glm47' cannot run"),
        (V1_ONLY, {"lanes": "v2-openai"}, "LANES='v2-openai' cannot run: this version does not drive"),
        (V1_ONLY, {"lanes": "v1-openai,v2-openai"}, "LANES='v2-openai' cannot run"),
        (V1_ONLY, {"cell": "qwen3/v2-openai"}, "CELL='qwen3/v2-openai/baseline' cannot run"),
        (frozenset(), {}, "nothing can run: this version does not drive"),
        (EVERY_LANE, {"family": "minimax_m27", "lanes": "v2-anthropic", "engine": "gpu"}, "opts out"),
        (EVERY_LANE, {"shard": "1/2"}, "SHARD='1/2' leaves shards with nothing to run: only qwen3 can run"),
        (EVERY_LANE, {"engine": "gpu", "gpus": "0"}, "GPUS='0': family qwen3 needs 2 devices"),
    ],
)
def test_what_is_asked_for_by_name_and_cannot_run_is_refused(
    built: frozenset[Lane], settings: dict[str, object], said: str
) -> None:
    assert [problem for problem in refused(built, **settings) if said in problem]


def test_every_shard_knows_what_the_others_hold() -> None:
    parts = [plan(family="all", engine="gpu", shard=f"{index}/3") for index in (1, 2, 3)]
    held = {part.shard: [str(cell.id) for cell in part.cells] for part in parts}
    for part in parts:
        assert part.elsewhere == {shard: cells for shard, cells in held.items() if shard != part.shard}
    assert plan(family="all", engine="gpu").elsewhere == {}


def test_shards_share_out_every_family_exactly_once() -> None:
    whole = plan(family="all", engine="gpu")
    parts = [plan(family="all", engine="gpu", shard=f"{index}/3") for index in (1, 2, 3)]
    assert sorted(str(cell.id) for part in parts for cell in part.cells) == sorted(str(cell.id) for cell in whole.cells)
    assert all(part.leases for part in parts)
    assert {str(cell.id): cell for part in parts for cell in part.cells} == {str(cell.id): cell for cell in whole.cells}


def test_problems_of_environment_families_and_names_come_in_one_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "families.toml"
    file.write_text(DEFAULT_FILE.read_text(encoding="utf-8").replace("cycles = 3", "cycles = 0"), encoding="utf-8")
    for name, value in {
        "FAMILY": "nope",
        "SAMPLES": "0",
        "LANES": "v1-anthropic",
        "FAMILIES_FILE": str(file),
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        prepare_plan(run_id="run", now=NOW, versions={})
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    for said in (
        "FAMILY='nope'",
        "SAMPLES='0'",
        "Anthropic verification requires session server v2",
        "family glm47: cycles = 0",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("name", "most"), [("SAMPLES", MOST_SAMPLES), ("CYCLES", MOST_CYCLES), ("WORKERS", MOST_WORKERS)]
)
def test_a_count_beyond_its_limit_is_one_line_among_all_problems_and_the_limit_itself_is_planned(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """Without a limit the plan itself would be as large as the number."""
    monkeypatch.setenv(name, str(most))
    assert prepare_plan(run_id="run", now=NOW, versions={})[2].leases
    monkeypatch.setenv("SEED", "-1")
    for value in (str(most + 1), "9" * 30):
        monkeypatch.setenv(name, value)
        with pytest.raises(ConfigurationError) as caught:
            prepare_plan(run_id="run", now=NOW, versions={})
        said = f"{name}='{value}'; allowed: a whole number, at least 1 and at most {most}"
        assert sorted(caught.value.problems) == sorted([said, "SEED='-1'; allowed: a whole number, 0 to 2**63-1"])


def test_an_unreadable_families_file_does_not_blame_the_family_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMILIES_FILE", "/nowhere/families.toml")
    monkeypatch.setenv("FAMILY", "mine")
    with pytest.raises(ConfigurationError) as caught:
        prepare_plan(run_id="run", now=NOW, versions={})
    assert len(caught.value.problems) == 1


def test_a_family_of_a_file_of_ones_own_can_be_planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "families.toml"
    text = DEFAULT_FILE.read_text(encoding="utf-8").replace("[family.qwen3]", "[family.mine]")
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("FAMILIES_FILE", str(file))
    monkeypatch.setenv("FAMILY", "mine")
    _, _, made = prepare_plan(run_id="run", now=NOW, versions={})
    assert made.cells[0].family == "mine"


def test_a_plan_survives_its_own_file() -> None:
    made = plan(family="all", engine="gpu")
    assert Plan.model_validate_json(made.model_dump_json()) == made


def test_run_ids_sort_by_time_differ_and_fit_into_a_compose_project_name() -> None:
    first, again = new_run_id(NOW), new_run_id(NOW)
    assert first != again
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*", first)
    assert first.startswith("20260102-030405-")


def test_samples_go_to_the_workers_in_turn_and_every_worker_serves_somebody() -> None:
    made = plan(workers=3)
    for cell in made.cells:
        assert [sample.index for sample in cell.samples] == [0, 1, 2]
        workers = [sample.worker for sample in cell.samples]
        assert sorted(workers) == [0, 1, 2]
        assert all(later == (earlier + 1) % 3 for earlier, later in pairwise(workers))
    alone = plan(workers=3, cell="qwen3/v2-openai")
    assert alone.cells[0].samples == made.cells[1].samples, "a cell that is planned alone keeps its workers"
    few = plan(workers=3, samples=1)
    assert [len(cell.samples) for cell in few.cells] == [1, 1, 1], "a number that was asked for is kept"


def test_one_worker_serves_every_sample() -> None:
    assert {sample.worker for cell in plan(samples=5).cells for sample in cell.samples} == {0}


def test_explicit_ports_are_one_range_for_v1_then_one_for_v2_then_the_next_lease() -> None:
    assert plan(workers=3).leases[0].ports == {}
    made = plan(workers=3, session_server_port=9000)
    assert made.leases[0].ports == {"session-v1": (9000, 9002), "session-v2": (9003, 9005)}
    settings = Settings(workers=3, session_server_port=9000)
    second = plan_lease(settings, "qwen3", load_families()["qwen3"], 1)
    assert second.ports == {"session-v1": (9006, 9008), "session-v2": (9009, 9011)}


def test_a_range_of_ports_that_reaches_too_far_is_refused_with_its_end() -> None:
    assert plan(workers=3, session_server_port=65530).leases[0].ports["session-v2"] == (65533, 65535)
    (problem,) = refused(workers=3, session_server_port=65531)
    assert "65536" in problem


@pytest.mark.parametrize(("on_infra", "allowed"), [("stop", 0), ("recreate", 0), ("accept", 1)])
def test_only_accept_lets_a_cell_pass_whose_lease_was_created_again(on_infra: str, allowed: int) -> None:
    assert {cell.limits.recreations for cell in plan(on_infra=on_infra).cells} == {allowed}
