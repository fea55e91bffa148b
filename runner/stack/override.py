"""The Compose override of a GPU lease: what the official SGLang image needs beyond what compose.yaml says.

Generated per lease, since the devices differ, and kept in the artifacts beside the variables, so that it can be read
and used again. It is JSON, which every YAML reader takes. compose.yaml stays the one place for all the rest: the
hardening of the containers, ports, health checks and labels are not repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.base.errors import ConfigurationError
from runner.plan.model import PlannedLease

OVERRIDE_NAME = "compose.gpu.yaml"
TEMPLATE_NAME = "chat_template.jinja"
CACHE = "/hf"
"""Where the containers see the model cache of the host (HF_HOME), read-only."""

VARIABLES = {"TITO_ENGINE_MEMORY": "0", "TITO_ENGINE_TMPFS": "mode=1777,exec,size=32g"}
"""Compose variables of a GPU engine: no limit on main memory, and room for kernels that are compiled at its start."""

TEMPLATE = "/tito/chat_template.jinja"
"""Where the engine sees the family's fixed chat template, one file, read-only."""

_SHARED_MEMORY = "32g"
"""NCCL and the tensor-parallel workers talk through /dev/shm."""

_READERS = ("session-v1", "session-v2", "runner")


def engine_command(lease: PlannedLease, *, template: str = "") -> list[str]:
    """Arguments of `python3 -m sglang.launch_server`. Devices beyond one tensor-parallel group become replicas.

    With `template`, a path inside the container, the engine renders with that one; else with the model's own.

    Raises ConfigurationError where the devices don't divide into groups.
    """
    replicas, rest = divmod(lease.gpus, lease.tensor_parallel)
    if rest or not replicas:
        raise ConfigurationError(
            [f"family {lease.family}: {lease.gpus} GPUs are no multiple of tensor_parallel = {lease.tensor_parallel}"]
        )
    optional = [
        ("--chat-template", template, bool(template)),
        ("--data-parallel-size", replicas, replicas > 1),
        ("--expert-parallel-size", lease.expert_parallel, lease.expert_parallel > 1),
    ]
    return [
        *("--model-path", lease.model),
        *("--host", "0.0.0.0", "--port", "30000"),  # noqa: S104 - a container's own network
        *("--context-length", str(lease.context_length)),
        *("--reasoning-parser", lease.reasoning_parser),
        *("--tool-call-parser", lease.tool_call_parser),
        *("--tensor-parallel-size", str(lease.tensor_parallel)),
        *(text for name, value, wanted in optional if wanted for text in (name, str(value))),
        *lease.engine_args,
    ]


def override(lease: PlannedLease, devices: Sequence[str], cache: Path, template: Path | None = None) -> dict[str, Any]:
    """The override of one lease that got these devices (indices or uuids).

    `cache` is HF_HOME on the engine's host, `template` the family's fixed chat template there, where it has one.

    Raises ConfigurationError where the number of devices is not the planned one.
    """
    if len(devices) != lease.gpus:
        raise ConfigurationError([f"family {lease.family} is planned with {lease.gpus} GPUs and got {list(devices)}"])
    mount = _mount(cache, CACHE)
    request = {"driver": "nvidia", "device_ids": list(devices), "capabilities": ["gpu"]}
    engine = {
        "entrypoint": ["python3", "-m", "sglang.launch_server"],
        "command": engine_command(lease, template=TEMPLATE if template is not None else ""),
        "environment": {"HF_HOME": CACHE, "HF_HUB_OFFLINE": "1", "HOME": "/tmp"},  # noqa: S108 - a tmpfs of its own
        "volumes": [mount, *([_mount(template, TEMPLATE)] if template else [])],
        "shm_size": _SHARED_MEMORY,
        "deploy": {"resources": {"reservations": {"devices": [request]}}},
    }
    return {"services": {"engine": engine, **{name: {"volumes": [mount]} for name in _READERS}}}


def write_override(
    path: Path, lease: PlannedLease, devices: Sequence[str], cache: Path, template: str | None = None
) -> None:
    """Write the override of a lease, and beside it the text of its chat template. Raises as `override` does."""
    place = path.with_name(TEMPLATE_NAME) if template is not None else None
    made = override(lease, devices, cache, place)
    if place is not None and template is not None:
        place.write_text(template, encoding="utf-8")
        place.chmod(0o644)  # read by another user inside the container
    path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


def _mount(source: Path, target: str) -> dict[str, Any]:
    return {"type": "bind", "source": str(source), "target": target, "read_only": True}
