"""The whole GPU path without a GPU: a second engine with stand-ins for NVIDIA's inventory and container hook.

Real are the plan, the preflight, the locks, the override, Compose, the device request and what the container finds in
/dev. Stood in for are the driver, the hook and the engine behind the official image's entry point.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.cli.stacks import ROOT
from runner.oracle.template import bundled
from runner.stack.override import OVERRIDE_NAME, TEMPLATE, TEMPLATE_NAME
from tests.container.conftest import Ended, Start, left_on
from tests.container.second import STANDINS, Second, equip, hooked, strip

pytestmark = pytest.mark.xdist_group("second engine")

DEVICES = 6
NEEDS = {"small": 2, "big": 4}
REVISION = "0123456789abcdef"
CELL = "small/v1-openai/baseline"
_MODEL = ROOT / "images" / "engine-cpu" / "models" / "qwen3"


@dataclass(frozen=True)
class Machine:
    """A machine with stand-in GPUs, and what a run on it is told."""

    second: Second
    client: docker.DockerClient
    variables: dict[str, str]

    def ids(self, run: Ended) -> dict[str, list[str]]:
        """Family -> devices that the engine of the run found in its own /dev."""
        found = {}
        for family in NEEDS:
            log = run.run_dir / "logs" / family / "engine.log"
            if log.is_file():
                found[family] = said(log)["devices"]
        return found


def said(log: Path) -> dict[str, Any]:
    """What the stand-in engine found at its start."""
    return said_in(log.read_text())


def said_in(text: str) -> dict[str, Any]:
    """The same, from the text of the log."""
    line = next(line for line in text.splitlines() if "stand-in: " in line)
    loaded: dict[str, Any] = json.loads(line.partition("stand-in: ")[2])
    return loaded


def requested(run: Ended, family: str) -> list[str]:
    """The device ids in the override that the run kept."""
    path = run.run_dir / "leases" / family / OVERRIDE_NAME
    engine = json.loads(path.read_text())["services"]["engine"]
    (request,) = engine["deploy"]["resources"]["reservations"]["devices"]
    ids: list[str] = request["device_ids"]
    return ids


@pytest.fixture(scope="module")
def gpu_image(second: Second, images: dict[str, str]) -> str:
    """The scripted engine behind the official image's entry point, on the second engine."""
    tag = "tito-e2e/gpu-stand-in:test"
    dockerfile = (
        f"FROM {images['scripted-engine']}\n"
        "COPY sglang /opt/app/sglang\n"
        "ENV PATH=/opt/scripted/bin:$PATH\n"
        """ENV SCRIPTED_ENGINE_FAULTS="[{\\"kind\\": \\"delay\\", \\"times\\": null, \\"value\\": 0.7}]"\n"""
    )
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(STANDINS / "sglang", "sglang", filter=lambda info: None if "__pycache__" in info.name else info)
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile.encode())
        archive.addfile(info, io.BytesIO(dockerfile.encode()))
    client = second.client()
    try:
        client.images.build(fileobj=io.BytesIO(context.getvalue()), custom_context=True, tag=tag, rm=True, forcerm=True)
    finally:
        client.close()
    return tag


@pytest.fixture(scope="module")
def variables(gpu_image: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model cache with one small model, and two families of it: one for two devices, one for four."""
    place = tmp_path_factory.mktemp("gpu")
    place.chmod(0o755)
    snapshot = place / "cache" / "hub" / "models--Qwen--Qwen3-30B-A3B-FP8" / "snapshots" / REVISION
    shutil.copytree(_MODEL, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(REVISION)
    text = (ROOT / "runner/plan/families.toml").read_text()
    row = text.partition("[family.qwen3]\n")[2].partition("\n[family.")[0]
    rows = [
        f"[family.{family}]\n" + row.replace("gpus = 2\n", f"gpus = {count}\n").replace("gpu = 1800", "gpu = 300")
        for family, count in NEEDS.items()
    ]
    families = place / "families.toml"
    families.write_text("schema_version = 1\n" + "\n".join(rows))
    return {
        "ENGINE": "gpu",
        "ENGINE_IMAGE": gpu_image,
        "HF_HOME": str(place / "cache"),
        "FAMILIES_FILE": str(families),
        "SAMPLES": "1",
        "CYCLES": "1",
    }


@pytest.fixture(scope="module")
def machine(second: Second, variables: dict[str, str]) -> Iterator[Machine]:
    """The second engine with hook and inventory."""
    equip(second, DEVICES)
    second.restart()
    client = second.client()
    yield Machine(second, client, variables)
    client.close()
    strip(second)
    second.restart()


def test_an_engine_without_a_hook_is_named_as_the_missing_link(
    second: Second, variables: dict[str, str], start: Start
) -> None:
    equip(second, DEVICES)
    (second.bin / "nvidia-container-runtime-hook").unlink()  # a driver, and no toolkit
    try:
        ended = start(second=second, FAMILY="small", **variables).end(120)
    finally:
        strip(second)
    assert ended.code == 3, ended.stderr
    assert "nvidia driver:" not in ended.stderr
    assert "nvidia toolkit: the NVIDIA container toolkit is not installed" in ended.stderr
    assert "gpu in a container: Error response from daemon: could not select device driver" in ended.stderr
    assert "with capabilities: [[gpu]]" in ended.stderr
    assert not any(ended.artifacts.iterdir()), "nothing was started"


def test_two_leases_get_what_they_asked_for_and_a_second_run_waits_for_its_devices(
    machine: Machine, start: Start
) -> None:
    first = start(second=machine.second, name="first", FAMILY="small,big", **machine.variables)
    first.wait_line("turn 1 ")
    then = start(second=machine.second, name="then", FAMILY="small", GPUS="0,1", **machine.variables)
    then.wait_line("waiting for GPUs that another run holds, out of 0, 1")
    one, two = first.end(), then.end()
    assert one.code == 0, one.stderr
    assert two.code == 0, two.stderr

    found = machine.ids(one)
    assert {family: len(devices) for family, devices in found.items()} == NEEDS
    assert sorted(found["small"] + found["big"]) == [str(index) for index in range(DEVICES)], "no device is shared"
    assert machine.ids(two) == {"small": ["0", "1"]}
    for run in (one, two):
        for family, devices in machine.ids(run).items():
            assert requested(run, family) == devices
            start_of = said(run.run_dir / "logs" / family / "engine.log")
            assert start_of["visible"] == ",".join(devices)
            assert start_of["user"] == 10001
            assert start_of["shared_memory"] == 32 << 30
    calls = {call["container"]: call["devices"] for call in hooked(machine.second)}
    for run in (one, two):
        for family, devices in machine.ids(run).items():
            states = json.loads((run.run_dir / "leases" / family / "states.json").read_text())
            assert calls[states["engine"]["container_id"]] == ",".join(devices), "the Docker engine's own word"

    # The two leases of the first run were up at the same time; the second run's came after both had gone.
    (small, big), (later,) = _spans(one), _spans(two)
    assert max(small[0], big[0]) < min(small[1], big[1])
    assert later[0] > min(small[1], big[1])

    assert not left_on(machine.client, one.run_id)
    assert not left_on(machine.client, two.run_id)

    # The engine renders with the family's fixed template, and so does the oracle.
    text = bundled("qwen3")
    assert text is not None
    lease = one.run_dir / "leases" / "big"
    assert (lease / TEMPLATE_NAME).read_text() == text
    start_of = said(one.run_dir / "logs" / "big" / "engine.log")
    assert start_of["flags"]["chat_template"] == TEMPLATE
    assert start_of["template"] == hashlib.sha256(text.encode()).hexdigest()
    assert start_of["flags"]["data_parallel_size"] == 4
    (sample,) = one.cell("big/v1-openai/baseline")["samples"]
    assert sample["state"] == "clean", sample


def test_a_recorded_gpu_cell_runs_again_on_devices_that_are_free(machine: Machine, start: Start) -> None:
    first = start(second=machine.second, name="first", FAMILY="small", GPUS="1,4", **machine.variables).end()
    assert first.code == 0, first.stderr
    recorded = {"HF_HOME": machine.variables["HF_HOME"], "ENGINE_IMAGE": "", "LANES": ""}
    again = start("repro", str(first.run_dir), CELL, second=machine.second, name="again", **recorded).end()
    assert again.code == 0, again.stderr
    assert again.cell(CELL)["outcome"] == "pass"
    assert machine.ids(again) == {"small": requested(again, "small")} == {"small": ["0", "1"]}
    flags = [said(run.run_dir / "logs" / "small" / "engine.log")["flags"] for run in (first, again)]
    assert flags[0] == flags[1], "only the devices are others"
    assert not left_on(machine.client, again.run_id)


def _spans(run: Ended) -> list[tuple[datetime, datetime]]:
    """Of each lease: when its first step began and when it was over."""
    walls = [lease["wall"] for lease in run.verdict()["leases"]]
    return [(datetime.fromisoformat(wall["started_at"]), datetime.fromisoformat(wall["ended_at"])) for wall in walls]


def test_up_starts_the_environment_on_gpus_and_down_removes_it(machine: Machine, start: Start) -> None:
    process = start("up", second=machine.second, FAMILY="small", GPUS="2,5", **machine.variables)
    up = process.end()
    try:
        assert up.code == 0, up.stderr
        assert "engine     http://127.0.0.1:" in up.stdout
        (run_id,) = (path.name for path in up.artifacts.iterdir())
        left = left_on(machine.client, run_id)
        assert len(left.containers) == 3
        (engine,) = (name for name in left.containers if "engine" in name)
        log = machine.client.containers.get(engine).logs().decode()
        assert said_in(log)["devices"] == requested(up, "small") == ["2", "5"]
        down = start("down", second=machine.second, name="down").end()
        assert down.code == 0, down.stderr
        assert f"removed {run_id}" in down.stdout
        assert not left_on(machine.client, run_id)
    finally:
        start("down", second=machine.second, name="again").end()


def test_a_hook_that_fails_is_named_with_its_own_words(machine: Machine, start: Start) -> None:
    broken = machine.second.directory / "hook.broken"
    broken.write_text("initialization error: nvml error: driver not loaded")
    try:
        ended = start(second=machine.second, FAMILY="small", **machine.variables).end(120)
    finally:
        broken.unlink()
    assert ended.code == 3, ended.stderr
    assert "gpu in a container: " in ended.stderr
    assert "error running hook" in ended.stderr
    assert "nvml error: driver not loaded" in ended.stderr
    assert not any(ended.artifacts.iterdir()), "nothing was started"


def test_too_few_devices_are_said_with_what_there_is(machine: Machine, start: Start) -> None:
    ended = start(second=machine.second, FAMILY="big", GPUS="0,1,2,9", **machine.variables).end(120)
    assert ended.code == 2, ended.stderr
    assert "gpu memory: GPUS names 9; this machine has 0, 1, 2, 3, 4, 5" in ended.stderr
    assert "unknown device" in ended.stderr, "the container says so as well"
    few = start(second=machine.second, name="few", FAMILY="big", GPUS="0,1", **machine.variables).end(120)
    assert few.code == 2, few.stderr
    assert "family big needs 4 devices" in few.stderr
    equip(machine.second, 3)
    try:
        fewer = start(second=machine.second, name="fewer", FAMILY="big", **machine.variables).end(120)
    finally:
        equip(machine.second, DEVICES)
    assert fewer.code == 2, fewer.stderr
    assert "big needs 4, and 3 can be used (0, 1, 2)" in fewer.stderr
    assert not any(path for run in (ended, few, fewer) for path in run.artifacts.iterdir())
