"""Every way a run can end badly: Ctrl-C, SIGKILL, a dead engine. Evidence is kept, nothing stays in Docker."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import docker
import pytest

from runner.stack import labels
from tests.container.conftest import Left, Start

CELL = "qwen3/v1-openai/baseline"
Faulty = Callable[[list[dict[str, Any]]], str]

SLOW = [{"kind": "delay", "times": None, "value": 1.5}]
"""Every reply takes 1.5 s: about 20 s in which something can be done to the run."""


def _container(client: docker.DockerClient, run_id: str, service: str) -> Any:
    wanted: dict[str, Any] = {"label": [f"{labels.RUN}={run_id}", f"{labels.SERVICE}={service}"]}
    (container,) = client.containers.list(filters=wanted)
    return container


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupt_collects_removes_and_ends_130(
    start: Start, faulty: Faulty, left: Callable[[str], Left], number: signal.Signals
) -> None:
    process = start(ENGINE_IMAGE=faulty(SLOW))
    process.wait_line("turn 2 ")
    # To the whole group, as a terminal does: docker's own processes get it too.
    os.killpg(process.popen.pid, number)
    ended = process.end()
    assert ended.code == 130, ended.stderr
    assert not left(ended.run_id)
    assert all((ended.run_dir / f"logs/qwen3/{name}.log").read_text() for name in ("engine", "session-v1", "runner"))
    ledger = (ended.run_dir / "cells" / CELL / "ledger.jsonl").read_text()
    assert '"kind":"trailer"' in ledger
    assert "interrupted" in ledger
    assert (ended.run_dir / "report.html").exists()


@pytest.mark.parametrize("line", [": collecting", ": removing"], ids=["while collecting", "while removing"])
def test_an_interrupt_at_the_end_waits_for_the_evidence(start: Start, left: Callable[[str], Left], line: str) -> None:
    process = start()
    process.wait_line(line)
    os.killpg(process.popen.pid, signal.SIGINT)
    ended = process.end()
    assert ended.code == 130, ended.stderr
    assert not left(ended.run_id)
    cell = ended.cell(CELL)
    assert cell["completed_samples"] == cell["planned_samples"] > 0
    assert ended.verdict()["interrupted"]
    assert (ended.run_dir / "leases/qwen3/states.json").exists()


def test_what_a_killed_run_left_is_removed_by_the_next_and_a_living_run_is_not_touched(
    start: Start, faulty: Faulty, left: Callable[[str], Left]
) -> None:
    killed = start(ENGINE_IMAGE=faulty([{"kind": "hang", "turn": 2, "times": None}]), name="killed")
    killed.wait_line("turn 1 ")
    living = start(ENGINE_IMAGE=faulty(SLOW), name="living")
    living.wait_line("turn 1 ")
    killed.popen.kill()
    killed.popen.wait(30)
    dead_id, living_id = (next(p.artifacts.iterdir()).name for p in (killed, living))
    assert left(dead_id)

    following = start(name="following")
    assert f"removed what the killed run {dead_id} had left" in following.wait_line("removed what the killed run")
    assert not left(dead_id)
    assert following.end().code == 0
    ended = living.end()
    assert ended.code == 0, ended.stderr
    assert not left(living_id)


def test_an_engine_that_is_killed_is_infra_and_no_verification_failure(
    start: Start, faulty: Faulty, left: Callable[[str], Left], client: docker.DockerClient
) -> None:
    process = start(ENGINE_IMAGE=faulty(SLOW))
    process.wait_line("turn 2 ")
    run_id = next(process.artifacts.iterdir()).name
    _container(client, run_id, "engine").kill()
    ended = process.end()
    assert ended.code == 3, ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "infra"
    assert not cell["failed"]
    assert any("killed (SIGKILL)" in reason["message"] for reason in cell["reasons"])
    assert cell["log_tail"]
    assert "last lines of engine" in ended.stderr
    assert not left(run_id)


def test_a_killed_runner_container_is_noticed(
    start: Start, faulty: Faulty, left: Callable[[str], Left], client: docker.DockerClient
) -> None:
    process = start(ENGINE_IMAGE=faulty(SLOW))
    process.wait_line("turn 2 ")
    run_id = next(process.artifacts.iterdir()).name
    _container(client, run_id, "runner").kill()
    ended = process.end()
    assert ended.code in (3, 4), ended.stderr
    assert ended.cell(CELL)["outcome"] in ("infra", "incomplete")
    assert not left(run_id)


def test_an_engine_that_dies_at_a_turn_is_infra(start: Start, faulty: Faulty, left: Callable[[str], Left]) -> None:
    ended = start(ENGINE_IMAGE=faulty([{"kind": "die", "turn": 3}])).end()
    assert ended.code == 3, ended.stderr
    assert ended.cell(CELL)["outcome"] == "infra"
    assert not left(ended.run_id)


def test_an_engine_that_hangs_ends_as_a_stall(start: Start, faulty: Faulty, left: Callable[[str], Left]) -> None:
    ended = start(ENGINE_IMAGE=faulty([{"kind": "hang", "turn": 2, "times": None}]), STALL_TIMEOUT="5").end()
    assert ended.code != 0
    assert "stall" in ended.stdout + ended.stderr
    assert ended.cell(CELL)["outcome"] != "pass"
    assert not left(ended.run_id)


@pytest.mark.parametrize(
    ("fault", "outcomes"),
    [
        pytest.param({"kind": "truncate", "times": None}, {"model-incomplete"}, id="always truncated"),
        pytest.param({"kind": "empty", "times": None}, {"model-incomplete"}, id="always empty"),
        pytest.param({"kind": "drop_token", "turn": 2, "times": None}, {"hard"}, id="a token lost"),
        pytest.param({"kind": "swap_token", "turn": 2, "times": None}, {"hard"}, id="a token swapped"),
        pytest.param({"kind": "usage", "turn": 2, "times": None}, {"hard", "verifier-error"}, id="wrong usage"),
    ],
)
def test_a_fault_of_the_engine_is_caught_and_named(
    start: Start, faulty: Faulty, fault: dict[str, Any], outcomes: set[str]
) -> None:
    ended = start(ENGINE_IMAGE=faulty([fault])).end()
    assert ended.code == 1, ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] in outcomes, cell
    assert cell["reasons"]
    assert f"make repro RUN={ended.run_dir} CELL={CELL}" in ended.stdout


def test_a_turn_that_is_good_at_the_second_attempt_passes_and_the_retry_is_counted(
    start: Start, faulty: Faulty
) -> None:
    ended = start(ENGINE_IMAGE=faulty([{"kind": "truncate", "turn": 2, "times": 1}])).end()
    assert ended.code == 0, ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "pass"
    assert cell["passed_on_retry"]
    assert cell["retries"] == {"length": 1}
