"""The ground breaks while a run stands on it: the outcome is infra, soon, with evidence, and nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import docker
import pytest

from runner.stack import labels
from tests.container.conftest import Left, Start
from tests.container.test_ends import CELL, SLOW, Faulty

SOON = 60.0
"""Seconds from the fault to the end of the run, clean-up included, on a busy machine."""


@dataclass(frozen=True)
class Chaos:
    """What is done to a running lease."""

    client: docker.DockerClient
    run_id: str

    def container(self, service: str) -> Any:
        wanted: dict[str, Any] = {"label": [f"{labels.RUN}={self.run_id}", f"{labels.SERVICE}={service}"]}
        (found,) = self.client.containers.list(filters=wanted)
        return found

    def pause(self, service: str) -> None:
        self.container(service).pause()

    def kill(self, service: str) -> None:
        self.container(service).kill()

    def cut_off(self, service: str) -> None:
        (network,) = self.client.networks.list(filters={"label": f"{labels.RUN}={self.run_id}"})
        network.disconnect(self.container(service), force=True)


@pytest.mark.parametrize(
    ("fault", "service", "said"),
    [
        pytest.param(Chaos.pause, "engine", "was paused", id="engine paused"),
        pytest.param(Chaos.pause, "runner", "was paused", id="runner paused"),
        pytest.param(Chaos.kill, "session-v1", "killed (SIGKILL)", id="session server killed"),
        pytest.param(Chaos.cut_off, "engine", "was cut off from its network", id="engine cut off"),
        pytest.param(Chaos.cut_off, "session-v1", "was cut off from its network", id="session server cut off"),
        pytest.param(Chaos.cut_off, "runner", "was cut off from its network", id="runner cut off"),
    ],
)
def test_a_fault_of_the_ground_is_infra_and_soon_over(
    start: Start,
    faulty: Faulty,
    left: Callable[[str], Left],
    client: docker.DockerClient,
    fault: Callable[[Chaos, str], None],
    service: str,
    said: str,
) -> None:
    process = start(ENGINE_IMAGE=faulty(SLOW))
    process.wait_line("turn 2 ")
    run_id = next(process.artifacts.iterdir()).name
    begin = time.monotonic()
    fault(Chaos(client, run_id), service)
    ended = process.end()
    seconds = time.monotonic() - begin
    assert ended.code == 3, ended.stdout + ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "infra"
    assert not cell["failed"]
    assert any(said in reason["message"] for reason in cell["reasons"]), cell["reasons"]
    assert f"{service}: " in ended.stderr
    assert all((ended.run_dir / f"logs/qwen3/{name}.log").exists() for name in ("engine", "session-v1", "runner"))
    assert not left(run_id)
    assert seconds < SOON


def test_an_engine_that_is_killed_for_memory_is_told_as_that(start: Start, left: Callable[[str], Left]) -> None:
    ended = start(TITO_ENGINE_MEMORY="24m").end()
    assert ended.code == 3, ended.stdout + ended.stderr
    assert ended.cell(CELL)["outcome"] == "infra"
    assert "killed for memory (OOM)" in ended.stderr
    assert not left(ended.run_id)
