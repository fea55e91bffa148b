"""A Docker engine that answers: found, or started where that is ours to do.

Found is whatever the docker command line talks to: DOCKER_HOST, a context, the default socket. Only where nothing
answers on the default socket of a Debian or Ubuntu machine, and we are root there, is an engine installed and
started: by systemd where it runs, else detached from us. In every other case one message says which line to run;
nobody's desktop application, remote engine or user rights are touched.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent, PhaseEvent
from runner.ground import packages
from runner.ground.client import Docker
from runner.ground.engine import MACHINE, Engine, Found, answering, check_api, find, where
from runner.ground.lock import held
from runner.ground.process import Alive, alive, spawn
from runner.ground.shell import Run, run

_TRIES = 3
_LOG_LINES = 6
_POLL = 0.5
"""Seconds between two looks at a starting engine."""

_READY = 60.0
"""Seconds that one start may take; usually about five, twenty on a busy machine."""


@dataclass(frozen=True)
class Machine:
    """What decides whether we may start an engine here, and with which files."""

    root: bool
    linux: bool
    docker_host: str
    apt: bool
    dockerd: bool
    systemd: bool
    run_dir: Path = Path("/var/run")
    log: Path = Path("/var/log/tito-e2e-dockerd.log")
    lock: Path = Path("/var/lock/tito-e2e-dockerd.lock")
    arguments: tuple[str, ...] = ()
    """Further arguments of dockerd: another socket, another data folder."""

    @classmethod
    def here(cls) -> Machine:
        """This machine."""
        return cls(
            root=os.geteuid() == 0,
            linux=sys.platform == "linux",
            docker_host=os.environ.get("DOCKER_HOST", ""),
            apt=shutil.which("apt-get") is not None,
            dockerd=packages.dockerd() is not None,
            systemd=Path("/run/systemd/system").is_dir(),
        )

    @property
    def pid_file(self) -> Path:
        """Where dockerd writes its pid."""
        return self.run_dir / "docker.pid"

    @property
    def containerd_pid_file(self) -> Path:
        """Where dockerd writes the pid of the containerd it starts."""
        return self.run_dir / "docker/containerd/containerd.pid"


def ensure(emit: Emit, *, machine: Machine | None = None, client: Docker | None = None, run: Run = run) -> Engine:
    """An engine that answers, started if need be. Raises InfrastructureError with the line to run."""
    machine = machine or Machine.here()
    client = client or Docker(run=run)
    found = find(client)
    engine = found.engine
    if engine is None:
        refuse(machine, client, found)
        with held(machine.lock, timeout=900.0, waiting=_waiting(emit)):
            # whoever held the lock has perhaps started it
            engine = find(client).engine or _set_up(machine, client, emit, run)
    check_api(engine)
    emit(NoteEvent(message=f"Docker engine {engine.version} (API {engine.api_version}), {where(engine)}"))
    return engine


def refuse(machine: Machine, client: Docker, found: Found) -> None:
    """Raise InfrastructureError unless an engine may be set up here, after `found` has none."""
    if found.no_client:
        _refuse_without_client(machine)
        return
    context, said = client.context(), found.said
    if machine.docker_host:
        raise InfrastructureError(
            f"DOCKER_HOST={machine.docker_host} is set and no engine answers there: {said}",
            "start that engine, or `unset DOCKER_HOST` to use this machine's own",
        )
    if "permission denied" in said.lower():
        raise InfrastructureError(
            "a Docker engine is here, but this user may not talk to it",
            'sudo usermod -aG docker "$USER"   # then log in again, or: newgrp docker',
        )
    if context.name == "desktop-linux" or not machine.linux:
        raise InfrastructureError(
            f"Docker Desktop does not answer (context {context.name}): {said}",
            "start Docker Desktop, wait until it says it is running, then run this again",
        )
    if context.name != "default":
        raise InfrastructureError(
            f"the docker context {context.name!r} ({context.host}) does not answer: {said}",
            "start that engine, or `docker context use default` to use this machine's own",
        )
    _refuse_without_rights(machine)


def _refuse_without_client(machine: Machine) -> None:
    version = answering()
    if version:
        raise InfrastructureError(
            f"a Docker engine {version} answers, but the `docker` command is missing",
            f"{packages.CLIENT_LINE}   # or put a docker client on PATH",
        )
    if not machine.linux:
        raise InfrastructureError("no Docker engine and no `docker` command", "install Docker Desktop and start it")
    if machine.docker_host:
        raise InfrastructureError(
            f"DOCKER_HOST={machine.docker_host} is set, no engine answers there and the `docker` command is missing",
            packages.CLIENT_LINE,
        )
    _refuse_without_rights(machine)


def _refuse_without_rights(machine: Machine) -> None:
    if not machine.apt and not machine.dockerd:
        raise InfrastructureError(
            "no Docker engine answers, and this is no Debian or Ubuntu where we could install one",
            "install Docker Engine: https://docs.docker.com/engine/install/",
        )
    if machine.root:
        return
    if not machine.dockerd:
        line = packages.ENGINE_LINE
    elif machine.systemd:
        line = "sudo systemctl start docker"
    else:
        line = "sudo sh -c 'setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &'"
    raise InfrastructureError("no Docker engine answers, and only root can install or start one", line)


def _set_up(machine: Machine, client: Docker, emit: Emit, run: Run) -> Engine:
    if packages.dockerd() is None or find(client).no_client:
        emit(PhaseEvent(lease=MACHINE, phase="preparing", detail="no Docker engine: installing Debian's docker.io"))
        packages.install_engine(run)
    for attempt in range(1, _TRIES + 1):
        emit(PhaseEvent(lease=MACHINE, phase="starting", detail=f"dockerd, try {attempt}, log {machine.log}"))
        died = _start(machine, run)
        engine = _await(client, died)
        if engine is not None:
            return replace(engine, started=True)
    lines = "\n".join(f"    {line}" for line in _telling(machine.log))
    raise InfrastructureError(
        f"dockerd does not become ready, tried {_TRIES} times. Last lines of {machine.log}:\n{lines}",
        f"run `dockerd` in a terminal to see why; whole log: {machine.log}",
    )


def _start(machine: Machine, run: Run) -> Alive:
    """Start dockerd unless it is on its way already; the returned question is whether it still lives."""
    if machine.systemd:
        run(("systemctl", "start", "docker"), timeout=120.0)
        return lambda: True
    pid_file = machine.pid_file
    if alive(pid_file, "dockerd"):
        return lambda: alive(pid_file, "dockerd")
    pid_file.unlink(missing_ok=True)
    if not alive(machine.containerd_pid_file, "containerd"):
        # the pid of a zombie or of some other process in here makes 20.10 wait for it and give up
        machine.containerd_pid_file.unlink(missing_ok=True)
    return spawn((packages.dockerd() or "dockerd", *machine.arguments), log=machine.log)


def _await(client: Docker, lives: Alive) -> Engine | None:
    """The engine once it answers; None where it died or `_READY` seconds went by."""

    def look() -> Engine | bool:
        return find(client).engine or not lives()

    waiting = Retrying(
        retry=retry_if_result(lambda found: found is False), wait=wait_fixed(_POLL), stop=stop_after_delay(_READY)
    )
    try:
        found = waiting(look)
    except RetryError:
        return None
    return found if isinstance(found, Engine) else None


def _waiting(emit: Emit) -> Callable[[str], None]:
    return lambda holder: emit(
        NoteEvent(message=f"process {holder} is setting up a Docker engine on this machine; waiting for it")
    )


def _telling(log: Path) -> list[str]:
    """The last lines that are more than progress; dockerd writes dozens of those while it gives up."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if "level=info" not in line and "level=warning" not in line][-_LOG_LINES:]
