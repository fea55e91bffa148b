"""The ground breaks while a run stands on it: the outcome is infra, soon, with evidence, and nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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

    def network(self) -> Any:
        (network,) = self.client.networks.list(filters={"label": f"{labels.RUN}={self.run_id}"})
        return network

    def cut_off(self, service: str) -> None:
        self.network().disconnect(self.container(service), force=True)

    def part(self, service: str, *, friend: str) -> None:
        """Put `service` on a network of its own with `friend` alone, who stays on the lease's: all others lose it."""
        lease = self.network()
        marks = {labels.RUN: self.run_id, labels.FAMILY: "qwen3"}
        apart = self.client.networks.create(f"{self.run_id}-apart", labels=marks)
        apart.connect(self.container(friend), aliases=[friend])
        apart.connect(self.container(service), aliases=[service])
        lease.disconnect(self.container(service), force=True)


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


@pytest.mark.parametrize(
    ("service", "friend", "blamed"),
    [
        pytest.param("session-v1", "runner", ("engine", "session-v1"), id="between session server and engine"),
        pytest.param("session-v1", "engine", ("session-v1",), id="between runner and session server"),
    ],
)
def test_a_network_that_parts_two_of_them_is_infra_where_docker_sees_nothing_wrong(
    start: Start,
    faulty: Faulty,
    left: Callable[[str], Left],
    client: docker.DockerClient,
    service: str,
    friend: str,
    blamed: tuple[str, ...],
) -> None:
    """Every container runs and is on a network: only the turns notice, by an error or by waiting in vain."""
    process = start(ENGINE_IMAGE=faulty(SLOW), STALL_TIMEOUT="5")
    process.wait_line("turn 2 ")
    run_id = next(process.artifacts.iterdir()).name
    begin = time.monotonic()
    Chaos(client, run_id).part(service, friend=friend)
    ended = process.end()
    seconds = time.monotonic() - begin
    assert ended.code == 3, ended.stdout + ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "infra"
    assert not cell["failed"]
    assert any(cell["reasons"][0]["message"].startswith(f"{name}: ") for name in blamed), cell["reasons"]
    assert not left(run_id)
    assert seconds < 2 * SOON


FULL = """
services:
  session-v1:
    volumes: ["artifacts:/keeps-it-mounted:ro"]
volumes:
  artifacts:
    driver_opts: {type: tmpfs, device: tmpfs, o: "size=192k,mode=1777"}
"""


def test_a_full_disk_under_the_verifier_is_infra(start: Start, left: Callable[[str], Left], tmp_path: Path) -> None:
    override = tmp_path / "full.yaml"
    override.write_text(FULL)
    ended = start(COMPOSE_OVERRIDE=str(override)).end()
    assert ended.code == 3, ended.stdout + ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "infra"
    assert not cell["failed"]
    said = [reason["message"] for reason in cell["reasons"]]
    assert any("No space left on device" in text or "could not write its evidence" in text for text in said), said
    assert (ended.run_dir / "leases/qwen3/compose.override.yaml").read_text() == FULL
    assert not left(ended.run_id)


def test_a_lease_whose_engine_dies_is_created_once_more_and_the_pass_is_marked(
    start: Start, faulty: Faulty, left: Callable[[str], Left], client: docker.DockerClient
) -> None:
    process = start(ENGINE_IMAGE=faulty(SLOW), ON_INFRA="accept", SAMPLES="1", CYCLES="1")
    process.wait_line("turn 2 ")
    run_id = next(process.artifacts.iterdir()).name
    Chaos(client, run_id).kill("engine")
    ended = process.end()
    assert ended.code == 0, ended.stdout + ended.stderr
    cell = ended.cell(CELL)
    assert (cell["outcome"], cell["passed_on_retry"], cell["passed_again"]) == ("pass", True, True)
    assert "killed (SIGKILL)" in cell["retried"][0]
    assert "(1 on retry)" in ended.stdout
    kept = ended.run_dir / "leases/qwen3/try-1"
    assert '"turn":2' in (kept / "logs/runner.log").read_text()
    assert (kept / "cells" / CELL / "ledger.jsonl").read_text().startswith('{"kind":"header"')
    assert (kept / "states.json").exists()
    assert '"kind":"recreated"' in (ended.run_dir / "leases/qwen3/ledger.jsonl").read_text()
    assert not left(run_id)


def test_an_engine_that_is_killed_for_memory_is_told_as_that(
    start: Start, faulty: Faulty, left: Callable[[str], Left]
) -> None:
    image = faulty([{"kind": "hoard", "turn": 2}])
    ended = start(ENGINE_IMAGE=image, TITO_ENGINE_MEMORY="256m", SAMPLES="1", CYCLES="1").end()
    assert ended.code == 3, ended.stdout + ended.stderr
    assert ended.cell(CELL)["outcome"] == "infra"
    assert "killed for memory (OOM)" in ended.stderr
    assert not left(ended.run_id)
