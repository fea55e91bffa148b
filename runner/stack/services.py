"""What Docker says about each service of a project: running, healthy, ended and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from runner.stack import labels
from runner.stack.failure import ServiceFailure

SESSION_SERVICES = ("session-v1", "session-v2")

_TAIL_LINES = 20
_SIGNALS = {137: "killed (SIGKILL)", 139: "crashed (SIGSEGV)", 134: "aborted (SIGABRT)", 143: "terminated (SIGTERM)"}


@dataclass(frozen=True)
class ServiceState:
    """One container at one moment. `health` is `starting`, `healthy`, `unhealthy` or `none`."""

    service: str
    container_id: str
    status: str
    health: str
    exit_code: int
    oom_killed: bool
    restarts: int
    error: str
    health_said: str = ""
    """What its last failed health check printed, the last line of it."""
    connected: bool = True
    """Whether it is on a network; True where Docker does not say."""

    @property
    def ended(self) -> bool:
        """Seen to have ended: only said when Docker says so."""
        return self.status in ("exited", "dead")

    @property
    def trouble(self) -> str:
        """Why nothing that needs this service can go on, or empty: it ended, restarted, is paused or cut off."""
        if self.ended:
            return self.ending
        if self.restarts:
            return f"restarted {self.restarts} times"
        if self.status == "paused":
            return "was paused"
        if self.status == "running" and not self.connected:
            return "was cut off from its network"
        return ""

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        if self.oom_killed:
            return "killed for memory (OOM); raise its memory limit or free memory on the Docker host"
        how = _SIGNALS.get(self.exit_code, f"ended with exit code {self.exit_code}")
        return f"{how}: {self.error}" if self.error else how


def containers(client: docker.DockerClient, project: str, workers: int = 1) -> dict[str, Container]:
    """Name -> container, ended ones included. A name is the service's; of several workers, `session-v1-1` and so on."""
    found = client.containers.list(all=True, filters={"label": f"{labels.PROJECT}={project}"}, ignore_removed=True)
    return {_name(container, workers): container for container in found}


def _name(container: Container, workers: int) -> str:
    service = container.labels[labels.SERVICE]
    number = container.labels[labels.NUMBER]
    return f"{service}-{number}" if service in SESSION_SERVICES and workers > 1 else service


def worker_names(service: str, workers: int) -> list[str]:
    """What the containers of a session service are called, in the order in which Compose numbers them."""
    return [service] if workers == 1 else [f"{service}-{number}" for number in range(1, workers + 1)]


def published(container: Container, port: int) -> tuple[str, int] | None:
    """Host address and port under which Docker published a container's TCP `port`; None where it did not."""
    container.reload()
    bound = (container.attrs["NetworkSettings"]["Ports"] or {}).get(f"{port}/tcp")
    return (str(bound[0]["HostIp"]), int(bound[0]["HostPort"])) if bound else None


def state(service: str, container: Container) -> ServiceState:
    """Ask Docker once. A container that is gone is `dead`."""
    try:
        container.reload()
    except NotFound:
        return ServiceState(service, str(container.id), "dead", "none", -1, False, 0, "the container was removed")
    seen = container.attrs["State"]
    health = seen.get("Health") or {}
    networks = container.attrs.get("NetworkSettings", {}).get("Networks")
    return ServiceState(
        service=service,
        container_id=str(container.id),
        status=str(seen["Status"]),
        health=str(health.get("Status", "none")),
        exit_code=int(seen.get("ExitCode", 0)),
        oom_killed=bool(seen.get("OOMKilled", False)),
        restarts=int(container.attrs.get("RestartCount", 0)),
        error=str(seen.get("Error", "")),
        health_said=_health_said(health),
        connected=networks is None or bool(networks),
    )


def _health_said(health: Mapping[str, Any]) -> str:
    probes = health.get("Log") or []
    if not probes or probes[-1].get("ExitCode") == 0:
        return ""
    lines = str(probes[-1].get("Output", "")).strip().splitlines()
    return lines[-1][:200] if lines else ""


def log_tail(container: Container, lines: int = _TAIL_LINES) -> list[str]:
    """The last lines of a log; empty where Docker cannot say, since this explains errors and must not add one."""
    try:
        raw = container.logs(tail=lines)
    except docker.errors.DockerException:
        return []
    return raw.decode("utf-8", "replace").splitlines()[-lines:]


def failure(seen: ServiceState, container: Container, message: str) -> ServiceFailure:
    """A ServiceFailure of what was seen, with the log's end."""
    return ServiceFailure(
        service=seen.service,
        message=message,
        exit_code=seen.exit_code if seen.ended else None,
        oom_killed=seen.oom_killed,
        log_tail=log_tail(container),
    )
