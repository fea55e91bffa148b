"""Docker itself goes away under a run and comes back: infra, soon, with what could be saved, and nothing stays."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator

import docker
import pytest

from tests.container.conftest import Start, left_on
from tests.container.second import Second
from tests.container.test_ends import CELL, SLOW

pytestmark = pytest.mark.xdist_group("second engine")

SOON = 120.0
"""Seconds from the fault to the end of the run: the engine's own restart and the whole clean-up, on a busy machine."""


@pytest.fixture
def client(second: Second) -> Iterator[docker.DockerClient]:
    made = second.client()
    yield made
    made.close()


@pytest.fixture
def slow(client: docker.DockerClient, images: dict[str, str]) -> str:
    """A scripted engine on the second Docker engine that leaves time for a fault."""
    tag = "tito-e2e/scripted-engine-slow:test"
    quoted = json.dumps(SLOW).replace('"', '\\"')
    dockerfile = f'FROM {images["scripted-engine"]}\nENV SCRIPTED_ENGINE_FAULTS="{quoted}"\n'
    client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=tag, rm=True, forcerm=True)
    return tag


@pytest.mark.parametrize("kill", [False, True], ids=["restarted as a service", "killed and started again"])
def test_docker_that_goes_away_in_the_middle_is_infra_and_its_evidence_is_fetched_when_it_is_back(
    second: Second, client: docker.DockerClient, start: Start, slow: str, kill: bool
) -> None:
    process = start(second=second, ENGINE_IMAGE=slow, ON_INFRA="stop", SAMPLES="1")
    process.wait_line("turn 2 ")
    begin = time.monotonic()
    second.restart(kill=kill)
    ended = process.end()
    seconds = time.monotonic() - begin
    assert ended.code == 3, ended.stdout + ended.stderr
    cell = ended.cell(CELL)
    assert cell["outcome"] == "infra", cell["reasons"]
    assert not cell["failed"]
    assert seconds < SOON
    for name in ("engine", "session-v1", "session-v2", "runner"):
        assert (ended.run_dir / f"logs/qwen3/{name}.log").read_text().strip(), name
    assert "turn" in (ended.run_dir / "logs/qwen3/runner.log").read_text()
    assert (ended.run_dir / "cells" / CELL / "ledger.jsonl").read_text().strip(), "copied out of the ended container"
    assert (ended.run_dir / "report.html").exists()
    assert (ended.run_dir / "leases/qwen3/states.json").exists()
    assert "Traceback" not in ended.stderr

    following = start(second=second, name="following", SAMPLES="1", CYCLES="1").end()
    assert following.code == 0, following.stderr
    assert not left_on(client, ended.run_id)
    assert not left_on(client, following.run_id)
