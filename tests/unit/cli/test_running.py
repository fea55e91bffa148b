"""Servers that already run are verified over their URLs, by a process that never imports Docker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import respx

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import Event
from runner.cli.ready import prove_ready
from runner.cli.stacks import ROOT
from runner.plan.build import prepare_plan
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, server_app
from tests.unit.plan.test_build import NOW

CELL = "qwen3/v2-openai/baseline"


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine(MODEL, [])


@pytest.fixture
def urls(engine: ScriptedEngine) -> Iterator[dict[str, str]]:
    """ENGINE_URL and SESSION_V2_URL of servers on real sockets."""
    with ExitStack() as stack:
        engine_url = stack.enter_context(served(build_engine(engine)))
        yield {
            "ENGINE_URL": engine_url,
            "SESSION_V2_URL": stack.enter_context(served(server_app("v2", engine_url))),
            "TOKENIZER": str(MODEL),
        }


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """`python -m runner` in an interpreter in which importing Docker is an error, and docker is not on PATH."""
    code = "import sys; sys.modules.update(docker=None, testcontainers=None); from runner.cli.app import main; main()"
    return [sys.executable, "-c", code]


def environment(artifacts: Path, **variables: str) -> dict[str, str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "DOCKER_"))}
    return {**plain, "CI": "1", "PATH": "/nowhere", "ARTIFACTS": str(artifacts), **variables}


def run_dir(artifacts: Path) -> Path:
    (directory,) = artifacts.iterdir()
    return directory


def test_running_servers_are_verified_without_docker_and_a_cell_of_it_again(
    command: list[str], urls: dict[str, str], tmp_path: Path
) -> None:
    env = environment(tmp_path / "one", LANES="v2-openai", SAMPLES="1", CYCLES="1", **urls)
    done = subprocess.run([*command, "e2e"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    directory = run_dir(tmp_path / "one")
    cells = {cell["cell"]: cell["outcome"] for cell in json.loads((directory / "verdict.json").read_text())["cells"]}
    assert cells == {CELL: "pass"}
    assert not json.loads((directory / "verdict.json").read_text())["interrupted"]
    facts = json.loads((directory / "environment.json").read_text())
    assert facts["targets"]["session-v2"]["answer"]["session_server_instance_id"] == "test-v2"
    assert facts["targets"]["engine"]["answer"]["scripted"] is True
    assert facts["engines"]["qwen3"]["determinism"]["same_seed"] == "no"
    assert (directory / "report.html").exists()

    again = environment(tmp_path / "two")
    done = subprocess.run(
        [*command, "repro", str(directory), CELL], cwd=ROOT, env=again, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads((run_dir(tmp_path / "two") / "plan.json").read_text())
    assert plan["leases"][0]["urls"]["session-v2"] == urls["SESSION_V2_URL"]


def test_a_server_that_does_not_answer_is_infra(command: list[str], urls: dict[str, str], tmp_path: Path) -> None:
    gone = {**urls, "SESSION_V2_URL": "http://127.0.0.1:9", "READY_TIMEOUT": "1"}
    env = environment(tmp_path / "one", LANES="v2-openai", SAMPLES="1", **gone)
    done = subprocess.run([*command, "e2e"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "http://127.0.0.1:9 proved no generation within 1 s" in done.stdout + done.stderr


def test_an_engine_that_lacks_what_is_needed_ends_every_cell_as_infra_and_says_what(
    command: list[str], engine: ScriptedEngine, urls: dict[str, str], tmp_path: Path
) -> None:
    engine.faults.append(Fault(Kind.NO_TOKEN_IDS, times=None))
    env = environment(tmp_path / "one", LANES="v2-openai", SAMPLES="2", **urls)
    done = subprocess.run([*command, "e2e"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    directory = run_dir(tmp_path / "one")
    (cell,) = json.loads((directory / "verdict.json").read_text())["cells"]
    assert cell["outcome"] == "infra"
    assert "version 0.0.0+scripted" in cell["reasons"][0]["message"]
    assert "token_ids (no output_token_logprobs in meta_info)" in cell["reasons"][0]["message"]
    assert json.loads((directory / "environment.json").read_text())["engines"]["qwen3"]["determinism"] is None


def test_an_interrupt_ends_130_with_a_verdict(
    command: list[str], engine: ScriptedEngine, urls: dict[str, str], tmp_path: Path
) -> None:
    engine.faults.append(Fault(Kind.HANG, turn=2, times=None))
    env = environment(tmp_path / "one", LANES="v2-openai", SAMPLES="1", PYTHONUNBUFFERED="1", **urls)
    with subprocess.Popen(
        [*command, "e2e"], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any("turn 1 " in line for line in process.stderr), "the first turn was never reported"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    directory = run_dir(tmp_path / "one")
    verdict = json.loads((directory / "verdict.json").read_text())
    assert (verdict["interrupted"], verdict["exit_code"]) == (True, 3)
    assert "exit code 3, interrupted" in out
    for again in ("gate", "replay"):
        done = subprocess.run([*command, again, str(directory)], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stdout + done.stderr
        assert "exit code 3, interrupted" in done.stdout
        assert "not as recorded" not in done.stdout


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ENGINE_URL": "http://e"}, "ENGINE_URL names no session server"),
        ({"SESSION_V1_URL": "http://s"}, "SESSION_V1_URL needs TOKENIZER"),
        ({"TOKENIZER": str(MODEL)}, "TOKENIZER is for servers that already run"),
        ({"SESSION_V1_URL": "http://s", "TOKENIZER": "/nowhere"}, "no tokenizer.json"),
        ({"SESSION_V1_URL": "http://s", "TOKENIZER": str(MODEL), "WORKERS": "2"}, "WORKERS is about"),
        ({"SESSION_V1_URL": "ftp://s"}, "SESSION_V1_URL='ftp://s'"),
        ({"SESSION_V1_URL": "http://me:pass@s"}, "credentials"),
        ({"SESSION_V1_URL": "http://s", "TOKENIZER": str(MODEL), "SESSION_IMAGE": "x"}, "SESSION_IMAGE is about"),
        (
            {"SESSION_V1_URL": "http://s", "TOKENIZER": str(MODEL), "LANES": "v2-openai"},
            "SESSION_V2_URL is not set",
        ),
        ({"SESSION_V1_URL": "http://s", "TOKENIZER": str(MODEL), "FAMILY": "qwen3,qwen35"}, "serve one family"),
    ],
)
def test_what_contradicts_itself_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        prepare_plan(run_id="run", now=NOW, versions={})


def test_artifacts_that_cannot_be_written_are_wrong_usage(
    command: list[str], urls: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    artifacts = tmp_path / "file"
    done = subprocess.run(
        [*command, "e2e"], env=environment(artifacts, **urls), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "ARTIFACTS=" in done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_that_cannot_be_written_is_wrong_usage_and_said_before_anything_is_judged(
    command: list[str], tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("in the way")
    plan = subprocess.run([*command, "plan"], env=environment(tmp_path), capture_output=True, text=True, check=True)
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.json").write_text(plan.stdout)
    done = subprocess.run(
        [*command, "replay", str(run), "--out", str(taken)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert f"--out='{taken}' cannot be written: [Errno 17] File exists: '{taken}'" in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_lane_without_its_server_is_planned_as_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a family without a micro model can be verified: the model is whoever runs the servers' business."""
    variables = {"SESSION_V1_URL": "http://s:8080/", "TOKENIZER": str(MODEL), "FAMILY": "qwen35"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, _, plan = prepare_plan(run_id="run", now=NOW, versions={})
    assert [(cell.lane.value, cell.applicable) for cell in plan.cells] == [
        ("v1-openai", True),
        ("v2-openai", False),
        ("v2-anthropic", False),
    ]
    assert plan.cells[1].reason.startswith("SESSION_V2_URL is not set")
    assert plan.leases[0].urls == {"session-v1": "http://s:8080"}
    assert plan.leases[0].tokenizer == str(MODEL.resolve())


BASE = "http://session:8080"


def _prove(budget: float = 0.1) -> list[Event]:
    events: list[Event] = []
    asyncio.run(prove_ready(BASE, budget, "qwen3", events.append))
    return events


@respx.mock(base_url=BASE)
def test_ready_is_enough_where_the_server_has_it(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/ready").respond(200)
    assert len(_prove()) == 1


@respx.mock(base_url=BASE)
def test_without_that_route_one_completion_is_the_proof_and_its_session_is_closed(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/ready").respond(404)
    respx_mock.post("/sessions").respond(200, json={"session_id": "abc"})
    asked = respx_mock.post("/sessions/abc/v1/chat/completions").respond(200, json={})
    closed = respx_mock.delete("/sessions/abc").respond(204)
    assert len(_prove()) == 1
    assert json.loads(asked.calls.last.request.content)["max_tokens"] == 1
    assert closed.called


@respx.mock(base_url=BASE)
def test_the_last_answer_is_shown_when_the_budget_is_over(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/ready").respond(503, text="loading")
    with pytest.raises(InfrastructureError, match="503 to /ready: loading"):
        _prove()


@respx.mock(base_url=BASE)
def test_a_server_that_opens_no_session_proves_nothing(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("/ready").respond(404)
    respx_mock.post("/sessions").respond(500, text="no engine")
    with pytest.raises(InfrastructureError, match="500 to POST /sessions: no engine"):
        _prove()
