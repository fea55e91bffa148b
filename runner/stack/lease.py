"""One lease from nothing to nothing: up, ready, verified, collected, removed.

The order of the end is what makes evidence reliable. The runner is asked to stop first, while everything that it talks
to still answers, so that it can close its ledgers; its artifacts are copied out; then the services stop, which ends
their log streams; only then is anything removed. All of it happens on every way out: success, failure, time-out,
Ctrl-C, a dead container.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import docker
from docker.errors import DockerException
from docker.models.containers import Container

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent, PhaseEvent, from_line
from runner.base.interrupt import finishing
from runner.base.terms import CANNOT_WRITE
from runner.plan.workers import WORKERS_NAME, Worker, Workers
from runner.stack import services
from runner.stack.client import NoAnswerError, answers
from runner.stack.collect import copy_out, put_file
from runner.stack.failure import PortError, ServiceFailure, StackError
from runner.stack.labels import SERVICE
from runner.stack.lock import leave
from runner.stack.logs import LogFollower
from runner.stack.ports import Ranges, explain, is_race
from runner.stack.project import ComposeError, Project
from runner.stack.readiness import wait_ready
from runner.stack.redact import Redactor
from runner.stack.sweep import find, remove

ENGINE = "engine"
SERVICES = (ENGINE, *services.SESSION_SERVICES)
RUNNER = "runner"
_PORTS = {ENGINE: 30000, **dict.fromkeys(services.SESSION_SERVICES, 8080)}
"""What each service listens on inside its container."""

_PROFILE = "runner"
_INSIDE = PurePosixPath("/artifacts")
_EVIDENCE = ("cells", "models", "leases")
"""What the runner writes: ledgers and sessions, the tokenizer that a replay of them needs, what the engine said."""

_POLL_SECONDS = 0.5
_RUNNER_STOP_SECONDS = 20
_SERVICE_STOP_SECONDS = 5
_STALL_GRACE_SECONDS = 60.0
_DOCKER_SECONDS = 60.0
"""How long an engine that went away is waited for: restarting it takes seconds, with many containers half a minute."""

_ENDINGS = 3
"""An engine that is going down may answer the first question of an ending and not the next."""


@dataclass(frozen=True)
class Budgets:
    """Seconds. `ready`: until every service is healthy; `verify`: the whole verification; `stall`: without an event."""

    ready: float
    verify: float
    stall: float


@dataclass
class Lease:
    """Brings one family's environment up, runs the runner container in it, and takes it down again."""

    client: docker.DockerClient
    project: Project
    run_id: str
    family: str
    run_dir: Path
    budgets: Budgets
    redact: Redactor
    emit: Emit
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    workers: int = 1
    """Session servers per version."""
    ports: Ranges = field(default_factory=dict)
    """Session service -> first and last port of its workers; empty where Docker chooses."""
    was_up: bool = False
    """Every service has been healthy."""
    keep: bool = False
    """Leave the services running at the end; evidence is collected all the same."""
    _followers: list[LogFollower] = field(default_factory=list)
    _last_event: float = 0.0

    def verify(self, plan: bytes) -> int:
        """Run everything; returns the runner container's exit code, which is evidence and not the verdict.

        Raises StackError or InfrastructureError when something underneath broke. Evidence has been collected and
        everything has been removed whenever this returns or raises.
        """
        try:
            self.start()
            return self._drive(plan)
        finally:
            done = False
            try:
                with finishing():
                    self.finish()
                    done = True
            except KeyboardInterrupt:
                if not done:
                    # it came at the door of the block; a second signal interrupts no more
                    self.finish()
                raise

    def start(self) -> None:
        """Start engine and session servers and wait until they are healthy."""
        begun = self.clock()
        self._say("starting", f"project {self.project.name}")
        try:
            self.project.up(SERVICES)
        except ComposeError as error:
            raise self._over_ports(error) from None
        running = self._running()
        for name, container in running.items():
            self._follow(name, container)
        wait_ready(
            running,
            timeout=self.budgets.ready,
            lease=self.family,
            emit=self.emit,
            clock=self.clock,
            sleep=self.sleep,
        )
        self._workers_file.parent.mkdir(parents=True, exist_ok=True)
        self._workers_file.write_text(self.session_servers().model_dump_json(indent=2) + "\n", encoding="utf-8")
        self.was_up = True
        self._say("up", ", ".join(self.urls()), seconds=self.clock() - begun)

    @property
    def _workers_file(self) -> Path:
        return self.run_dir / "leases" / self.family / WORKERS_NAME

    def urls(self) -> list[str]:
        """`name=http://127.0.0.1:port` of each server, as published by Docker."""
        found = self._running()
        return [f"{name}={self._published(name, found[name])}" for name in found]

    def session_servers(self) -> Workers:
        """Where each session server answers, from the runner's network and from here, and what it calls itself."""
        found = self._running()
        by_service: dict[str, list[Worker]] = {}
        for service in services.SESSION_SERVICES:
            for name in services.worker_names(service, self.workers):
                container = found[name]
                inside = service if self.workers == 1 else str(container.name)
                by_service.setdefault(service, []).append(
                    Worker(
                        name=name,
                        url=f"http://{inside}:{_PORTS[service]}",
                        published=self._published(name, container),
                        instance_id=str(container.attrs["Config"]["Hostname"]),
                    )
                )
        return Workers(services=by_service)

    def _published(self, name: str, container: Container) -> str:
        port = _PORTS[container.labels[SERVICE]]
        found = services.published(container, port)
        if found is None:
            raise InfrastructureError(f"{name}: Docker does not say where its port {port} is published")
        return f"http://{found[0]}:{found[1]}"

    def _over_ports(self, error: ComposeError) -> InfrastructureError:
        """What Compose said of a port that somebody else holds, for a person; any other error as it is."""
        if not is_race(error.stderr):
            return error
        if not self.ports:
            return PortError("Docker chose ports that others took at the same time, again and again", "try again")
        found = services.containers(self.client, self.project.name, self.workers)
        seen = [services.published(container, _PORTS[services.SESSION_SERVICES[0]]) for container in found.values()]
        message, hint = explain(error.stderr, self.ports, [place[1] for place in seen if place])
        return PortError(message, hint)

    def _running(self) -> dict[str, Container]:
        found = services.containers(self.client, self.project.name, self.workers)
        names = [
            ENGINE,
            *(n for service in services.SESSION_SERVICES for n in services.worker_names(service, self.workers)),
        ]
        missing = [name for name in names if name not in found]
        if missing:
            raise InfrastructureError(f"Compose started no container for {', '.join(missing)}")
        return {name: found[name] for name in names}

    def _follow(self, name: str, container: Container, on_line: Callable[[str], None] | None = None) -> None:
        path = self.run_dir / "logs" / self.family / f"{name}.log"
        self._followers.append(LogFollower(container, path, self.redact, on_line=on_line))

    def _drive(self, plan: bytes) -> int:
        self.project.create(RUNNER, _PROFILE)
        runner = services.containers(self.client, self.project.name, self.workers)[RUNNER]
        put_file(runner, _INSIDE / "plan.json", plan)
        put_file(runner, _INSIDE / WORKERS_NAME, self._workers_file.read_bytes())
        self._last_event = self.clock()
        runner.start()
        self._follow(RUNNER, runner, self._on_runner_line)
        begun = self.clock()
        watched = self._running()
        while True:
            seen = services.state(RUNNER, runner)
            self._check_services(watched)
            if seen.ended:
                if seen.oom_killed or seen.exit_code in (125, 126, 127, 137, 139):
                    raise StackError(services.failure(seen, runner, seen.ending))
                if seen.exit_code == CANNOT_WRITE:
                    raise StackError(services.failure(seen, runner, "could not write its evidence; is its disk full?"))
                self._say("verified", f"runner ended with {seen.exit_code}", seconds=self.clock() - begun)
                return seen.exit_code
            if seen.trouble:
                raise StackError(services.failure(seen, runner, seen.trouble))
            now = self.clock()
            if now - begun > self.budgets.verify:
                raise StackError(
                    services.failure(seen, runner, f"not done after {self.budgets.verify:.0f} s"),
                    hint="give it longer with TIMEOUT=<seconds>, or plan fewer cells, SAMPLES or CYCLES",
                )
            if now - self._last_event > self.budgets.stall + _STALL_GRACE_SECONDS:
                raise StackError(services.failure(seen, runner, f"said nothing for {now - self._last_event:.0f} s"))
            self.sleep(_POLL_SECONDS)

    def _check_services(self, watched: dict[str, Container]) -> None:
        for name, container in watched.items():
            seen = services.state(name, container)
            if seen.trouble:
                raise StackError(services.failure(seen, container, f"while lanes were running: {seen.trouble}"))

    def _on_runner_line(self, line: str) -> None:
        event = from_line(line)
        if event is not None:
            self._last_event = self.clock()
            self.emit(event)

    def finish(self) -> None:
        """Collect all evidence, then remove everything, or keep it. Reports errors and goes on; safe to call twice.

        An engine that went away is waited for, since it has the evidence, and what is to be removed.
        """
        self._say("collecting")
        for _ in range(_ENDINGS):
            if not answers(self.client, _DOCKER_SECONDS):
                break
            try:
                self._end()
                return
            except NoAnswerError as error:
                self._warn(f"{error}; waiting for it at most {_DOCKER_SECONDS:.0f} s")
        self._left(
            "Docker does not answer, so nothing can be collected or removed now; the next run's sweep removes it"
        )

    def _end(self) -> None:
        found = services.containers(self.client, self.project.name, self.workers)
        self._collect(found)
        if self.keep and found:
            self._say("kept", f"KEEP=1: project {self.project.name} was left; `make down` removes it")
        else:
            self._remove()

    def _collect(self, found: dict[str, Container]) -> None:
        runner = found.pop(RUNNER, None)
        if runner is not None:
            self._stop(RUNNER, runner, _RUNNER_STOP_SECONDS)
            try:
                for part in _EVIDENCE:
                    copy_out(runner, _INSIDE / part, self.run_dir / part, self.redact)
            except NoAnswerError:
                raise
            except (DockerException, OSError) as error:
                self._warn(f"the runner's artifacts could not be copied out: {error}")
        states = {name: services.state(name, container).__dict__ for name, container in found.items()}
        if found and not self.keep:
            with ThreadPoolExecutor(len(found)) as pool:
                list(pool.map(lambda item: self._stop(item[0], item[1], _SERVICE_STOP_SECONDS), found.items()))
        for follower in self._followers:
            follower.finish(ended=not self.keep)
        self._followers.clear()
        if states:
            path = self.run_dir / "leases" / self.family / "states.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(states, indent=2) + "\n", encoding="utf-8")

    def _stop(self, name: str, container: Container, seconds: int) -> None:
        try:
            if services.state(name, container).status == "paused":
                container.unpause()  # a frozen process takes no signal
            container.stop(timeout=seconds)
        except NoAnswerError:
            raise
        except DockerException as error:
            self._warn(f"{name} could not be stopped: {error}")

    def _remove(self) -> None:
        self._say("removing")
        try:
            self.project.down()
        except InfrastructureError as error:
            self._warn(f"`docker compose down` failed, removing by label instead: {error}")
        try:
            for run in find(self.client, self.run_id, self.family):
                for problem in remove(self.client, run):
                    self._left(f"not removed: {problem}; `make sweep` tries again")
        except NoAnswerError:
            raise
        except DockerException as error:
            self._left(f"what is left could not be listed: {error}; `make sweep` removes it")

    def _say(self, phase: str, detail: str = "", seconds: float | None = None) -> None:
        rounded = None if seconds is None else round(seconds, 1)
        self.emit(PhaseEvent(lease=self.family, phase=phase, detail=detail, seconds=rounded))

    def _left(self, message: str) -> None:
        """Warn of what stays behind, and let a sweep know that it may take it once this process has ended."""
        self._warn(message)
        leave(self.run_id)

    def _warn(self, message: str) -> None:
        self.emit(NoteEvent(level="warning", message=f"{self.family}: {message}"))


def unexpected(error: Exception) -> ServiceFailure:
    """An error of Docker itself, in the form that the ledger keeps."""
    return ServiceFailure(service="docker", message=f"{type(error).__name__}: {error}"[:1000])
