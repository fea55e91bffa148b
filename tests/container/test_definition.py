"""Our reading of compose.yaml and of the Dockerfiles, which the Kubernetes manifest says again, beside Docker's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docker
import pytest

from runner.cli.k8s import entrypoints
from runner.cli.stacks import ROOT, compose_variables
from runner.ground import compose
from runner.ground.client import Docker
from runner.ground.engine import find
from runner.ground.shell import run
from runner.ground.site import Site
from runner.stack.definition import Service, seconds, services, size
from runner.stack.project import Project
from runner.stack.variables import write_env_file
from tests.unit.plan.test_build import plan


@pytest.mark.parametrize("engine", ["cpu", "gpu"])
def test_compose_reads_every_service_as_we_do(
    images: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    found = find(Docker()).engine
    assert found is not None
    for name, value in {**found.env, **compose.ensure(Site.here(ROOT), print, found.env, run).env}.items():
        monkeypatch.setenv(name, value)
    made = plan(family="qwen3", engine=engine)
    named = {"engine": "engine:1", "session": "session:1", "runner": "runner:1"}
    variables = compose_variables(made, made.leases[0], named, lock=Path("/a lock"), keep=True)
    write_env_file(tmp_path / "compose.env", variables)
    theirs = Project("tito-read", ROOT, tmp_path / "compose.env").configuration()["services"]
    ours = services(ROOT, variables)
    assert set(ours) == set(theirs)
    for name, service in ours.items():
        assert _said(service) == _read(theirs[name]), name


def _said(service: Service) -> dict[str, Any]:
    """Ours, in the terms of `_read`."""
    health = service.healthcheck
    return {
        "image": service.image,
        "user": service.user,
        "cap_drop": service.cap_drop,
        "security_opt": service.security_opt,
        "read_only": service.read_only,
        "environment": service.environment,
        "command": service.command,
        "tmpfs": service.tmpfs,
        "memory": service.mem_limit,
        "shared": service.shm_size,
        "pids": service.pids_limit,
        "grace": service.stop_grace_period,
        "labels": service.labels,
        "scale": service.scale,
        "port": service.port,
        "health": health and (health.test, health.interval, health.timeout, health.retries, health.start_period),
    }


def _read(theirs: dict[str, Any]) -> dict[str, Any]:
    """What Compose says that it would do."""
    health = theirs.get("healthcheck")
    tmpfs = {}
    for line in theirs.get("tmpfs", []):
        path, _, options = line.partition(":")
        tmpfs[path] = size(dict(option.partition("=")[::2] for option in options.split(","))["size"])
    ports = theirs.get("ports", [])
    return {
        "image": theirs["image"],
        "user": tuple(int(part) for part in theirs["user"].split(":")),
        "cap_drop": theirs["cap_drop"],
        "security_opt": theirs["security_opt"],
        "read_only": theirs["read_only"],
        "environment": theirs.get("environment") or {},
        "command": theirs.get("command") or [],
        "tmpfs": tmpfs,
        "memory": int(theirs.get("mem_limit", 0)),
        "shared": int(theirs.get("shm_size", 0)),
        "pids": theirs["pids_limit"],
        "grace": seconds(theirs["stop_grace_period"]),
        "labels": theirs["labels"],
        "scale": int(theirs.get("scale", 1)),
        "port": int(ports[0]["target"]) if ports else 0,
        "health": health
        and (
            [word.replace("$$", "$") for word in health["test"]],  # written so that it can be read again
            *(seconds(health[key]) for key in ("interval", "timeout")),
            health["retries"],
            seconds(health["start_period"]),
        ),
    }


def test_the_entry_points_of_the_dockerfiles_are_those_of_the_images(
    images: dict[str, str], client: docker.DockerClient
) -> None:
    for service, name in (("engine", "engine-cpu"), ("session-v1", "session-server"), ("runner", "runner")):
        config = client.images.get(images[name]).attrs["Config"]
        assert entrypoints("engine-cpu")[service] == config["Entrypoint"], name
    config = client.images.get(images["scripted-engine"]).attrs["Config"]
    assert not config["Entrypoint"]
    assert entrypoints("scripted-engine")["engine"] == config["Cmd"]
