"""What the environment may say, and that everything wrong with it is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings, read_settings
from runner.base.settings import EngineKind, Settings, describe, describe_markdown, variables
from runner.base.terms import CellId, ExitCode, Lane


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


def problems_of(monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return read_settings()[1]


def test_an_empty_environment_means_qwen3_on_the_cpu_in_all_lanes() -> None:
    settings = load_settings()
    assert settings.family == ("qwen3",)
    assert settings.lanes == tuple(Lane)
    assert settings.engine is EngineKind.CPU
    assert settings.stall_seconds == 120
    assert not settings.named("family")


def test_an_empty_value_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems_of(monkeypatch, SAMPLES="", LANES="", CELL="", TIMEOUT="", SESSION_IMAGE="") == []
    assert load_settings() == Settings()


def test_lists_are_comma_separated_and_forgive_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMILY", "qwen3, glm47")
    monkeypatch.setenv("LANES", "v2-openai")
    monkeypatch.setenv("ENGINE", "gpu")
    monkeypatch.setenv("GPUS", "0,3")
    settings = load_settings()
    assert settings.family == ("qwen3", "glm47")
    assert settings.lanes == (Lane.V2_OPENAI,)
    assert settings.gpus == (0, 3)
    assert settings.named("family")
    assert settings.named("lanes")


def test_all_names_nothing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMILY", "all")
    monkeypatch.setenv("LANES", "all")
    settings = load_settings()
    assert settings.lanes == tuple(Lane)
    assert not settings.named("family")
    assert not settings.named("lanes")


def test_a_cell_may_leave_out_its_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELL", "qwen3/v1-openai")
    assert load_settings().cell == (CellId("qwen3", Lane.V1_OPENAI, "baseline"),)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SAMPLES", "0", "at least 1"),
        ("SAMPLES", "two", "a whole number"),
        ("SAMPLES", "1.5", "a whole number"),
        ("CYCLES", "-1", "at least 1"),
        ("SEED", "-1", "0 to 2**63-1"),
        ("SEED", str(2**63), "0 to 2**63-1"),
        ("TIMEOUT", "0", "more than 0"),
        ("STALL_TIMEOUT", "nan", "more than 0"),
        ("READY_TIMEOUT", "inf", "more than 0"),
        ("WORKERS", "0", "at least 1"),
        ("ENGINE", "tpu", "cpu, gpu or scripted"),
        ("LEASES", "0", "at least 1"),
        ("LANES", "v1-anthropic", "Anthropic verification requires session server v2"),
        ("LANES", "v3-openai", "v1-openai, v2-openai, v2-anthropic"),
        ("LANES", "v1-openai,v1-openai", "twice"),
        ("CELL", "qwen3/v1-anthropic/baseline", "Anthropic verification requires session server v2"),
        ("CELL", "qwen3", "family/lane"),
        ("FAMILY", "qwen3,,glm47", "empty item"),
        ("FAMILY", "all,qwen3", "stands alone"),
        ("FAMILY", "../etc", "is not a name"),
        ("SHARD", "3/2", "no part 3 of 2"),
        ("SHARD", "0/2", "1 <= i <= n"),
        ("GPUS", "a", "device index"),
        ("KEEP", "maybe", "1 or 0"),
        ("BASE_IMAGE", "--privileged", "image reference"),
        ("SESSION_SERVER_PORT", "70000", "1 to 65535"),
        ("ON_INFRA", "ignore", "stop, recreate or accept"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    problems = problems_of(monkeypatch, **{name: value})
    assert [problem for problem in problems if problem.startswith(f"{name}={value!r}") and said in problem]


def test_all_problems_come_in_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SAMPLES": "0", "LANES": "v1-anthropic", "ENGINE": "tpu", "SHARD": "x"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match="nothing was started") as caught:
        load_settings({"workers": 0})
    assert len(caught.value.problems) == 5
    assert caught.value.exit_code is ExitCode.USAGE


def test_values_that_contradict_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = problems_of(monkeypatch, GPUS="0", CELL="qwen3/v1-openai", FAMILY="glm47", LANES="v2-openai")
    assert any("ENGINE=gpu" in problem for problem in problems)
    assert any("outside FAMILY='glm47'" in problem for problem in problems)
    assert any("outside LANES='v2-openai'" in problem for problem in problems)


@pytest.mark.parametrize(("engine", "refused"), [("gpu", True), ("cpu", False), ("scripted", False)])
def test_leases_at_once_are_for_engines_on_the_cpu(monkeypatch: pytest.MonkeyPatch, engine: str, refused: bool) -> None:
    problems = problems_of(monkeypatch, ENGINE=engine, LEASES="2")
    assert [problem for problem in problems if problem.startswith("LEASES='2'")] == problems
    assert bool(problems) == refused


def test_families_run_side_by_side_only_where_the_engine_leaves_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().leases_at_once == 1
    monkeypatch.setenv("ENGINE", "scripted")
    assert load_settings().leases_at_once == 2
    monkeypatch.setenv("LEASES", "3")
    assert load_settings().leases_at_once == 3


def test_a_wrong_value_does_not_bring_up_a_contradiction_that_follows_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(problems_of(monkeypatch, ENGINE="gpuu", GPUS="0,1")) == 1


def test_options_win_over_the_environment_and_none_means_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPLES", "3")
    monkeypatch.setenv("CYCLES", "4")
    settings = load_settings({"samples": 5, "cycles": None})
    assert (settings.samples, settings.cycles) == (5, 4)


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("woodpecker", True), ("false", False)])
def test_any_ci_is_taken_as_ci(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert load_settings().ci is expected


def test_a_gpu_gets_more_time_and_an_explicit_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = load_settings()
    monkeypatch.setenv("ENGINE", "gpu")
    gpu = load_settings()
    assert gpu.stall_seconds > cpu.stall_seconds
    assert gpu.lease_seconds > cpu.lease_seconds
    monkeypatch.setenv("STALL_TIMEOUT", "7.5")
    monkeypatch.setenv("TIMEOUT", "90")
    assert (load_settings().stall_seconds, load_settings().lease_seconds) == (7.5, 90)


def test_every_field_is_documented_with_values_and_default() -> None:
    for variable in variables():
        assert variable.doc.endswith(".")
        assert variable.allowed
        assert variable.default
        assert variable.name in describe()
        assert f"`{variable.name}`" in describe_markdown()


def test_paths_stay_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMILIES_FILE", "some/where.toml")
    assert load_settings().families_file == Path("some/where.toml")


def test_an_override_that_is_not_there_is_found_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = problems_of(monkeypatch, COMPOSE_OVERRIDE="/nowhere/compose.yaml")
    assert problems == ["COMPOSE_OVERRIDE='/nowhere/compose.yaml': there is no such file"]
