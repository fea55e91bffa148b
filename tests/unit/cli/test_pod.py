"""What the runner container of a pod does: its index says which lease, and it leaves a whole run that merges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.settings import variables
from runner.base.terms import ExitCode
from runner.cli.k8s import shards
from runner.cli.merge import merge
from runner.cli.pod import _placed, verify_index
from runner.cli.stacks import ROOT
from runner.plan.model import Plan
from runner.stack.manifest import plan_name
from runner.verdict.artifacts import load_plan
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, server_app
from tests.unit.plan.test_build import plan as planned

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FAMILIES = ("one", "two")


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plans of two indexes, whose servers run."""
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)
    row = (ROOT / "runner/plan/families.toml").read_text().partition("[family.qwen3]\n")[2].partition("\n[family.")[0]
    file = tmp_path / "families.toml"
    file.write_text("schema_version = 1\n" + "\n".join(f"[family.{name}]\n{row}" for name in FAMILIES))
    given = {"FAMILIES_FILE": str(file), "FAMILY": "all", "LANES": "v2-openai", "SAMPLES": "1", "CYCLES": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    _, made = shards(NOW)
    for name in given:
        monkeypatch.delenv(name)
    place = tmp_path / "plan"
    place.mkdir()
    with ExitStack() as stack:
        engine = stack.enter_context(served(build_engine(ScriptedEngine(MODEL, []))))
        session = stack.enter_context(served(server_app("v2", engine)))
        there = {"urls": {"engine": engine, "session-v2": session}, "tokenizer": str(MODEL)}
        for index, plan in enumerate(made):
            running = plan.model_copy(update={"leases": [plan.leases[0].model_copy(update=there)]})
            (place / plan_name(index)).write_text(running.model_dump_json())
        yield place


def run_index(plans: Path, index: int, artifacts: Path) -> subprocess.CompletedProcess[str]:
    """The command of the runner container, as a process of its own that has no Docker."""
    code = "import sys; sys.modules.update(docker=None, testcontainers=None); from runner.cli.app import main; main()"
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "DOCKER_"))}
    return subprocess.run(
        [sys.executable, "-c", code, "verify-index", "--plans", str(plans), "--artifacts", str(artifacts)],
        cwd=ROOT,
        env={**plain, "CI": "1", "PATH": "/nowhere", "JOB_COMPLETION_INDEX": str(index)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_index_drives_its_own_lease_and_all_of_them_merge(plans: Path, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    for index in range(len(FAMILIES)):
        done = run_index(plans, index, artifacts)
        assert done.returncode == 0, done.stdout + done.stderr
    runs = sorted(artifacts.iterdir())
    assert len(runs) == len(FAMILIES), "one run per index, side by side on one volume"
    for index, run in enumerate(runs):
        plan = load_plan(run)
        assert plan.run_id == run.name
        wanted = Plan.model_validate_json((plans / plan_name(index)).read_text())
        assert [lease.family for lease in plan.leases] == [lease.family for lease in wanted.leases]
        assert {cell.family for cell in plan.cells} == {plan.leases[0].family}
        assert json.loads((run / "verdict.json").read_text())["exit_code"] == 0
    assert merge(tmp_path / "whole", runs) is ExitCode.OK
    whole = json.loads((tmp_path / "whole" / "verdict.json").read_text())
    assert {cell["cell"].split("/")[0] for cell in whole["cells"]} == set(FAMILIES)
    assert merge(tmp_path / "part", runs[:1]) is ExitCode.INCOMPLETE, "an index that left nothing is not forgotten"
    page = (tmp_path / "part" / "report.html").read_text()
    assert f"{FAMILIES[1]}/v2-openai/baseline" in page, "its cells are on the page"
    assert "it belongs to shard 2/2, which is missing" in page


def test_an_index_without_a_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"plan-3\.json cannot be read"):
        verify_index(tmp_path, 3, tmp_path / "artifacts")
    assert not (tmp_path / "artifacts").exists()


def test_a_plan_of_more_than_one_lease_is_no_plan_of_an_index(tmp_path: Path) -> None:
    (tmp_path / plan_name(0)).write_text(planned(family="all", engine="gpu").model_dump_json())
    with pytest.raises(ConfigurationError, match="the plan of an index holds one"):
        verify_index(tmp_path, 0, tmp_path / "artifacts")


def test_the_tokenizer_of_a_gpu_lease_is_found_in_the_cache(tmp_path: Path) -> None:
    plan = planned(family="qwen3", engine="gpu")
    with pytest.raises(InfrastructureError, match="not in the model cache"):
        _placed(plan, tmp_path)
    model = tmp_path / "hub" / "models--Qwen--Qwen3-30B-A3B-FP8"
    snapshot = model / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    (snapshot / "tokenizer.json").write_text("{}")
    (snapshot / "tokenizer.json").chmod(0o644)
    assert _placed(plan, tmp_path).leases[0].tokenizer == str(snapshot)
    cpu = planned(family="qwen3")
    assert _placed(cpu, tmp_path) == cpu
