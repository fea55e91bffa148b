"""The generated override: device ids, flags and mounts of a GPU lease, exactly as planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import ConfigurationError
from runner.plan.model import PlannedLease
from runner.stack.override import CACHE, TEMPLATE, engine_command, override, write_override
from tests.unit.plan.test_build import plan

HOME = Path("/srv/models")


def leases() -> dict[str, PlannedLease]:
    return {lease.family: lease for lease in plan(family="all", engine="gpu").leases}


def _value(command: list[str], flag: str) -> str | None:
    return command[command.index(flag) + 1] if flag in command else None


@pytest.mark.parametrize(
    ("family", "tensor", "replicas", "experts", "draft"),
    [
        ("qwen3", "1", "2", None, None),
        ("qwen35", "2", "2", None, "3"),
        ("deepseekv4", "4", None, "4", "3"),
        ("minimax_m27", "4", None, None, None),
    ],
)
def test_flags_follow_the_family(
    family: str, tensor: str, replicas: str | None, experts: str | None, draft: str | None
) -> None:
    lease = leases()[family]
    command = engine_command(lease)
    assert _value(command, "--model-path") == lease.model
    assert _value(command, "--reasoning-parser") == lease.reasoning_parser
    assert _value(command, "--tool-call-parser") == lease.tool_call_parser
    assert _value(command, "--context-length") == str(lease.context_length)
    assert _value(command, "--tensor-parallel-size") == tensor
    assert _value(command, "--data-parallel-size") == replicas
    assert _value(command, "--expert-parallel-size") == experts
    assert _value(command, "--speculative-num-draft-tokens") == draft
    flags = [text for text in command if text.startswith("--")]
    assert len(flags) == len(set(flags))


def test_inkling_runs_without_prefill_graphs() -> None:
    assert _value(engine_command(leases()["inkling"]), "--cuda-graph-backend-prefill") == "disabled"


def test_the_container_asks_for_exactly_the_devices_of_the_lease(tmp_path: Path) -> None:
    write_override(tmp_path / "x.yaml", leases()["qwen3"], ["5", "GPU-77"], HOME)
    written: dict[str, Any] = json.loads((tmp_path / "x.yaml").read_text())
    engine = written["services"]["engine"]
    assert engine["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "device_ids": ["5", "GPU-77"], "capabilities": ["gpu"]}
    ]
    assert engine["shm_size"] == "32g"
    assert engine["environment"]["HF_HUB_OFFLINE"] == "1"
    assert engine["environment"]["HF_HOME"] == CACHE


def test_the_model_cache_is_read_only_everywhere_and_nothing_else_is_loosened() -> None:
    services = override(leases()["qwen3"], ["0", "1"], HOME)["services"]
    mount = {"type": "bind", "source": str(HOME), "target": CACHE, "read_only": True}
    assert set(services) == {"engine", "session-v1", "session-v2", "runner"}
    assert all(service["volumes"] == [mount] for service in services.values())
    loosening = {"privileged", "user", "cap_add", "network_mode", "ports", "ipc", "pid"}
    assert not any(loosening & set(service) for service in services.values())


def test_a_fixed_template_is_what_the_engine_renders_with_too(tmp_path: Path) -> None:
    path = tmp_path / "lease" / "x.yaml"
    path.parent.mkdir()
    write_override(path, leases()["qwen3"], ["0", "1"], HOME, "{{ messages }}")
    engine = json.loads(path.read_text())["services"]["engine"]
    assert _value(engine["command"], "--chat-template") == TEMPLATE
    (mount,) = [mount for mount in engine["volumes"] if mount["target"] == TEMPLATE]
    assert mount["read_only"] is True
    source = Path(mount["source"])
    assert (source.parent, source.read_text()) == (path.parent, "{{ messages }}")
    assert source.stat().st_mode & 0o004, "the engine runs as another user"
    write_override(path, leases()["glm47"], ["0", "1"], HOME, None)
    engine = json.loads(path.read_text())["services"]["engine"]
    assert "--chat-template" not in engine["command"], "the model's own"
    assert [mount["target"] for mount in engine["volumes"]] == [CACHE]


@pytest.mark.parametrize("devices", [[], ["0"], ["0", "1", "2"]])
def test_another_number_of_devices_is_refused(devices: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="planned with 2 GPUs"):
        override(leases()["qwen3"], devices, HOME)


def test_devices_that_do_not_divide_into_groups_are_refused() -> None:
    lease = leases()["qwen35"].model_copy(update={"gpus": 3})
    with pytest.raises(ConfigurationError, match="no multiple"):
        override(lease, ["0", "1", "2"], HOME)
