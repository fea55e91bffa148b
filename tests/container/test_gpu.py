"""The GPU path on a machine without GPUs: what is missing is said, and what would be asked for is what was planned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runner.cli.stacks import ROOT, compose_variables
from runner.ground import compose
from runner.ground.client import Docker
from runner.ground.engine import find
from runner.ground.shell import run
from runner.ground.site import Site
from runner.stack.override import write_override
from runner.stack.project import Project
from runner.stack.variables import write_env_file
from tests.container.conftest import Start
from tests.unit.plan.test_build import plan


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has an NVIDIA driver")
def test_without_a_gpu_the_missing_links_are_named_and_nothing_starts(start: Start, tmp_path: Path) -> None:
    ended = start(ENGINE="gpu", FAMILY="qwen3", ENGINE_IMAGE="", HF_HOME=str(tmp_path)).end(120)
    assert ended.code == 2, ended.stderr
    assert "nvidia driver: none" in ended.stderr
    assert "weights of qwen3" in ended.stderr
    assert "make doctor ENGINE=gpu" in ended.stderr
    assert not any(ended.artifacts.iterdir())


def test_compose_reads_the_override_as_it_was_meant(
    images: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = find(Docker()).engine
    assert engine is not None
    for name, value in {**engine.env, **compose.ensure(Site.here(ROOT), print, engine.env, run).env}.items():
        monkeypatch.setenv(name, value)
    made = plan(family="qwen3", engine="gpu")
    (lease,) = made.leases
    named = {"engine": "engine:1", "session": "session:1", "runner": "runner:1"}
    write_env_file(tmp_path / "compose.env", compose_variables(made, lease, named, lock=Path("/l"), keep=False))
    write_override(tmp_path / "compose.gpu.yaml", lease, ["3", "7"], tmp_path)
    project = Project("tito-gpu-test", ROOT, tmp_path / "compose.env", [tmp_path / "compose.gpu.yaml"])
    resolved = project.configuration()["services"]["engine"]
    (device,) = resolved["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["device_ids"], device["capabilities"]) == ("nvidia", ["3", "7"], ["gpu"])
    assert int(resolved["shm_size"]) == 32 << 30
    assert int(resolved.get("mem_limit", 0)) == 0
    assert resolved["tmpfs"] == ["/tmp:mode=1777,exec,size=32g"]
    assert resolved["entrypoint"] == ["python3", "-m", "sglang.launch_server"]
    assert resolved["read_only"] is True
    assert resolved["cap_drop"] == ["ALL"]
    mounts = {mount["target"]: mount for mount in resolved["volumes"]}
    assert mounts["/hf"]["read_only"] is True
    assert mounts["/hf"]["source"] == str(tmp_path)
    assert json.loads((tmp_path / "compose.gpu.yaml").read_text())
