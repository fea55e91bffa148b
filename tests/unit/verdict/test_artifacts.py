"""A run is judged again from its directory alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.base.errors import ConfigurationError, IncompleteError
from runner.base.terms import ExitCode, Outcome
from runner.verdict.artifacts import load_ledgers, load_recorded, load_run
from runner.verdict.engine import Capability, engine_path, write_engine
from runner.verdict.models import keep_models, kept_models

if TYPE_CHECKING:
    from conftest import MakeWorld, World


def test_a_run_on_disk_is_judged_as_in_memory(world: World, tmp_path: Path) -> None:
    world.records["lease:qwen3"] = []
    world.save(tmp_path)
    plan, verdict = load_run(tmp_path)
    assert plan == world.plan
    assert verdict.passed
    assert set(load_ledgers(tmp_path)) == {world.key, "lease:qwen3"}


def test_a_recorded_cell_is_run_again_from_its_record(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "artifacts" / "a run"
    world.save(run)
    monkeypatch.chdir(tmp_path)

    def line() -> str:
        _, verdict = load_run(run)
        return verdict.cells[0].reproduce

    assert line().startswith(f"make e2e CELL={world.key} ")
    (run / "environment.json").write_text("{}")
    assert line().startswith("make e2e ")  # which images is known, under which settings is not
    variables = run / "leases" / "qwen3" / "compose.env"
    variables.parent.mkdir(parents=True, exist_ok=True)
    variables.write_text("")
    assert line() == f"make repro RUN='artifacts/a run' CELL={world.key}"
    monkeypatch.chdir("/")
    assert line() == f"make repro RUN='{str(run)[1:]}' CELL={world.key}"


def test_servers_that_already_ran_are_driven_again_from_the_plan_alone(make_world: MakeWorld, tmp_path: Path) -> None:
    world = make_world(lanes="v1-openai", session_v1_url="http://there:8080", tokenizer=tmp_path)
    world.save(tmp_path / "run")
    _, verdict = load_run(tmp_path / "run")
    assert verdict.cells[0].reproduce == f"make repro RUN={tmp_path / 'run'} CELL={world.key}"


def test_what_was_found_out_about_an_engine_is_in_the_verdict_and_decides_nothing(world: World, tmp_path: Path) -> None:
    world.save(tmp_path)
    _, before = load_run(tmp_path)
    (facts,) = before.engines
    lacking = Capability(name="scoring", needed=True, available=False, seen="404")
    facts = facts.model_copy(update={"version": "other", "capabilities": [lacking]})
    write_engine(tmp_path, facts)
    _, verdict = load_run(tmp_path)
    assert verdict.engines == [facts]
    assert verdict.model_copy(update={"engines": before.engines}) == before


SAID = "leases/qwen3/engine.json is missing: samples of qwen3 were driven, and before that its engine was asked"


@pytest.mark.parametrize("engine", ["cpu", "scripted", "gpu"])
def test_a_driven_lease_without_the_facts_of_its_engine_lacks_evidence(
    make_world: MakeWorld, tmp_path: Path, engine: str
) -> None:
    world = make_world(lanes="v1-openai", engine=engine)
    world.records["lease:qwen3"] = []
    world.save(tmp_path)
    assert load_run(tmp_path)[1].exit_code is ExitCode.OK
    engine_path(tmp_path, "qwen3").unlink()
    _, verdict = load_run(tmp_path)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    (problem,) = verdict.problems
    assert problem.startswith(SAID)


def test_an_engine_that_could_not_be_asked_is_nothing_that_is_missing(make_world: MakeWorld, tmp_path: Path) -> None:
    """Servers that already run may hide their engine; a lease may end before its engine is there."""
    given = {"lanes": "v1-openai", "session_v1_url": "http://there:8080", "tokenizer": tmp_path}
    hidden, known = make_world(**given), make_world(**given, engine_url="http://there:30000")
    for name, world, problems in (("hidden", hidden, 0), ("known", known, 1)):
        world.records["lease:qwen3"] = []
        world.save(tmp_path / name)
        engine_path(tmp_path / name, "qwen3").unlink()
        assert len(load_run(tmp_path / name)[1].problems) == problems
    broken = make_world(lanes="v1-openai")
    broken.break_lease()
    broken.records[broken.key] = [broken.infra(index=0), broken.infra(index=1)]
    broken.save(tmp_path / "broken")
    engine_path(tmp_path / "broken", "qwen3").unlink()
    _, verdict = load_run(tmp_path / "broken")
    assert (verdict.exit_code, verdict.problems) == (ExitCode.INFRASTRUCTURE, [])


def test_a_check_that_failed_in_a_lane_is_a_driven_sample_as_well(world: World, tmp_path: Path) -> None:
    world.records["lease:qwen3"] = []
    world.records[world.key] = [world.error(0), world.error(1)]
    world.save(tmp_path)
    engine_path(tmp_path, "qwen3").unlink()
    assert load_run(tmp_path)[1].problems[0].startswith(SAID)


def test_a_lease_without_its_ledger_is_incomplete_never_silence(world: World, tmp_path: Path) -> None:
    """What broke underneath stands in it: a run that lost it must not look as if nothing did."""
    world.records["lease:qwen3"] = []
    world.save(tmp_path)
    _, whole = load_run(tmp_path)
    assert whole.exit_code is ExitCode.OK
    (tmp_path / "leases/qwen3/ledger.jsonl").unlink()
    _, verdict = load_run(tmp_path)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert verdict.problems == ["leases/qwen3/ledger.jsonl is missing: whether the ground of qwen3 held cannot be told"]


def test_engine_facts_that_cannot_be_read_make_the_run_incomplete(world: World, tmp_path: Path) -> None:
    world.records["lease:qwen3"] = []
    world.save(tmp_path)
    path = engine_path(tmp_path, "qwen3")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"family": "qwen3"}')
    _, verdict = load_run(tmp_path)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert "leases/qwen3/engine.json is not what the runner writes" in verdict.problems[0]


@pytest.mark.parametrize("drop", [1, -1])
def test_a_line_dropped_on_disk_is_incomplete_and_named_by_its_relative_path(
    world: World, tmp_path: Path, drop: int
) -> None:
    world.save(tmp_path)
    path = tmp_path / "cells" / world.key / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[drop]
    path.write_bytes(b"".join(lines))
    _, verdict = load_run(tmp_path)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert verdict.cells[0].reasons[0].message.startswith(f"cells/{world.key}/ledger.jsonl: ")


def test_a_lease_that_broke_is_read_from_its_own_ledger(world: World, tmp_path: Path) -> None:
    world.break_lease()
    world.records[world.key].pop()
    world.save(tmp_path)
    _, verdict = load_run(tmp_path)
    assert verdict.cells[0].outcome is Outcome.INFRA


def test_a_second_writer_of_a_cell_is_read_as_well(world: World, tmp_path: Path) -> None:
    world.save(tmp_path)
    path = tmp_path / "cells" / world.key / "ledger-2.jsonl"
    path.write_bytes(world.bytes_of(world.key).splitlines(keepends=True)[0])
    _, verdict = load_run(tmp_path)
    assert "ledger-2.jsonl: the trailer is missing" in verdict.cells[0].reasons[0].message


def test_a_stray_ledger_keeps_the_run_from_passing(world: World, tmp_path: Path) -> None:
    world.save(tmp_path)
    stray = tmp_path / "cells/qwen3/v2-openai/baseline/ledger.jsonl"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(world.bytes_of(world.key))
    _, verdict = load_run(tmp_path)
    assert verdict.exit_code is ExitCode.INCOMPLETE


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"schema_version": 1}'])
def test_a_directory_without_a_plan_that_can_be_read_is_wrong_usage(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("where", "shard", "said"),
    [
        ("shard", "9/3", "shard: there is no part 9 of 3"),
        ("shard", "3", "shard: is not i/n"),
        ("elsewhere", "4/3", "elsewhere.4/3.*: there is no part 4 of 3"),
    ],
)
def test_a_plan_of_a_shard_that_cannot_be_is_refused_by_name(
    world: World, tmp_path: Path, where: str, shard: str, said: str
) -> None:
    world.save(tmp_path)
    path = tmp_path / "plan.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    whole = {"shard": "3/3", "elsewhere": {"1/3": []}}
    path.write_text(json.dumps(plan | whole), encoding="utf-8")
    assert load_run(tmp_path)[0].shard == "3/3"
    path.write_text(json.dumps(plan | whole | {where: shard if where == "shard" else {shard: []}}), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"plan\.json is not a plan: {said}"):
        load_run(tmp_path)


def test_a_plan_of_another_version_is_refused(world: World, tmp_path: Path) -> None:
    world.plan.schema_version = 2
    world.save(tmp_path)
    with pytest.raises(ConfigurationError, match="schema version 2"):
        load_run(tmp_path)


def test_a_recorded_verdict_is_read_back_and_one_of_another_version_is_refused(world: World, tmp_path: Path) -> None:
    assert load_recorded(tmp_path) is None
    verdict = world.verdict()
    path = tmp_path / "verdict.json"
    path.write_text(verdict.model_dump_json(), encoding="utf-8")
    assert load_recorded(tmp_path) == verdict
    path.write_text(verdict.model_copy(update={"schema_version": 1}).model_dump_json(), encoding="utf-8")
    with pytest.raises(IncompleteError, match="schema version 1"):
        load_recorded(tmp_path)


def test_kept_models_are_found_as_they_were_kept_and_never_with_their_weights(tmp_path: Path) -> None:
    source, run = tmp_path / "models", tmp_path / "run"
    source.mkdir()
    for name in ("tokenizer.json", "chat_template.jinja", "model.safetensors"):
        (source / name).write_text(name, encoding="utf-8")
    place = keep_models(source, run, "qwen3")
    assert kept_models(run, "qwen3") == place == run / "models" / "qwen3"
    assert sorted(path.name for path in place.iterdir()) == ["chat_template.jinja", "sha256.json", "tokenizer.json"]
    (place / "chat_template.jinja").write_text("changed", encoding="utf-8")
    with pytest.raises(IncompleteError, match=r"chat_template\.jinja is not the file"):
        kept_models(run, "qwen3")
    (place / "chat_template.jinja").unlink()
    with pytest.raises(IncompleteError, match=r"chat_template\.jinja cannot be read"):
        kept_models(run, "qwen3")
    (place / "sha256.json").write_text("[]", encoding="utf-8")
    with pytest.raises(IncompleteError, match="not a list of digests"):
        kept_models(run, "qwen3")
    keep_models(source, run, "qwen3")
    (place / "sha256.json").write_text("{}", encoding="utf-8")
    with pytest.raises(IncompleteError, match=r"has no digest of tokenizer\.json, chat_template\.jinja"):
        kept_models(run, "qwen3")
    for path in place.iterdir():
        if path.name != "sha256.json":
            path.unlink()
    with pytest.raises(IncompleteError, match=r"has no digest of tokenizer\.json, so"):
        kept_models(run, "qwen3")
