"""The Docker engine that the command line talks to: DOCKER_HOST, a context, the default socket. Only looks."""

from __future__ import annotations

from dataclasses import dataclass, field

import docker
from docker.errors import DockerException

from runner.base.errors import InfrastructureError
from runner.ground.client import Docker

MACHINE = "machine"
"""The `lease` of events that belong to the machine and not to a lease."""

MIN_API = (1, 41)
"""Docker 20.10: the oldest engine that this is tested with."""


@dataclass(frozen=True)
class Engine:
    """An engine that answered. `env` is what other clients (SDK, Compose) need to reach the same one."""

    version: str
    api_version: str
    client_version: str
    context: str
    host: str
    env: dict[str, str] = field(default_factory=dict)
    started: bool = False

    @property
    def builder(self) -> str:
        """Name of the buildx builder that works on this engine's own images."""
        return "default" if "DOCKER_HOST" in self.env else self.context


@dataclass(frozen=True)
class Found:
    """The engine, or None with what the command line said instead."""

    engine: Engine | None
    said: str = ""
    no_client: bool = False
    """The `docker` command does not exist."""


def find(client: Docker) -> Found:
    """The engine that answers now."""
    versions, result = client.versions()
    if versions.server is None:
        return Found(None, "" if result.missing else result.tail(4), result.missing)
    context = client.context()
    env = {}
    if context.name != "default" and not context.tls and context.host:
        env["DOCKER_HOST"] = context.host  # the SDK does not read contexts
    server = versions.server
    return Found(Engine(server.version, server.api_version, versions.client.version, context.name, context.host, env))


def answering() -> str:
    """Version of the engine that the SDK reaches without any command line, or empty."""
    try:
        client = docker.from_env(timeout=5)
        try:
            return str(client.version()["Version"])
        finally:
            client.close()
    except (DockerException, OSError, KeyError):
        return ""


def check_api(engine: Engine) -> None:
    """Raise InfrastructureError where the engine is older than what this is tested with."""
    parts = engine.api_version.split(".")
    if len(parts) == 2 and all(part.isdigit() for part in parts) and (int(parts[0]), int(parts[1])) < MIN_API:
        raise InfrastructureError(
            f"the Docker engine {engine.version} speaks API {engine.api_version}; "
            f"{MIN_API[0]}.{MIN_API[1]} (Docker 20.10) is the oldest supported",
            "update Docker Engine: https://docs.docker.com/engine/install/",
        )


def where(engine: Engine) -> str:
    """How it is reached, for people."""
    return f"{'started here, ' if engine.started else ''}context {engine.context}, {engine.host or 'default socket'}"
