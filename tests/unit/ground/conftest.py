"""A machine made of answers: no process starts here, except where `shell`, `lock` and `process` are tried."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from runner.base.events import Event, NoteEvent, PhaseEvent
from runner.ground.shell import MISSING, Result
from runner.ground.site import Site

Reply = str | Result | Callable[[tuple[str, ...], Mapping[str, str]], "str | Result"]


class FakeRun:
    """Answers by the longest known beginning of the command; an unknown one fails loudly with code 99."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, ...], Reply] = {}
        self.calls: list[tuple[str, ...]] = []
        self.envs: list[Mapping[str, str]] = []

    def on(self, command: str, reply: Reply) -> None:
        """Answer commands that begin with these words."""
        self.replies[tuple(command.split())] = reply

    def called(self, command: str) -> list[tuple[str, ...]]:
        """The calls that began with these words."""
        words = tuple(command.split())
        return [call for call in self.calls if call[: len(words)] == words]

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Path | None = None,
        log: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Result:
        call = tuple(argv)
        self.calls.append(call)
        self.envs.append(dict(env or {}))
        for length in range(len(call), 0, -1):
            if call[:length] in self.replies:
                reply = self.replies[call[:length]]
                answer = reply(call, env or {}) if callable(reply) else reply
                result = Result(call, 0, answer) if isinstance(answer, str) else answer
                if on_line is not None:
                    for line in result.stdout.splitlines():
                        on_line(line)
                return result
        return Result(call, 99, stderr=f"the test has no answer for {' '.join(call)}")


def failed(stderr: str = "", code: int = 1) -> Result:
    """A command that ended with an error."""
    return Result(("fake",), code, stderr=stderr)


MISSING_RESULT = Result(("docker",), MISSING, stderr="docker: No such file or directory")

CLIENT = {"Version": "28.2.2", "Context": "default"}
SERVER = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64"}


def versions(server: Mapping[str, str] | None = SERVER) -> str:
    """`docker version --format '{{json .}}'`."""
    return json.dumps({"Client": CLIENT, "Server": server})


def context(name: str = "default", host: str = "unix:///var/run/docker.sock", tls: bool = False) -> str:
    """`docker context inspect`."""
    material = {"docker": ["ca.pem"]} if tls else {}
    return json.dumps([{"Name": name, "Endpoints": {"docker": {"Host": host}}, "TLSMaterial": material}])


def image(
    id: str, tags: Sequence[str] = (), labels: Mapping[str, str] | None = None, tagged: str = "2026-01-01T00:00:00Z"
) -> str:
    """`docker image inspect`."""
    return json.dumps(
        [{"Id": id, "RepoTags": list(tags), "Config": {"Labels": labels}, "Metadata": {"LastTagTime": tagged}}]
    )


class Log(list[Event]):
    """The events of one call, as texts."""

    @property
    def texts(self) -> list[str]:
        """Note messages and phase details."""
        return [
            event.message if isinstance(event, NoteEvent) else f"{event.phase}: {event.detail}"
            for event in self
            if isinstance(event, NoteEvent | PhaseEvent)
        ]


@pytest.fixture
def fake() -> FakeRun:
    """A machine on which an engine 20.10 answers on the default socket and Compose is there."""
    run = FakeRun()
    run.on("docker version", versions())
    run.on("docker context inspect", context())
    run.on("docker compose version --short", "2.40.3\n")
    run.on("docker buildx version", failed("docker: 'buildx' is not a docker command."))
    return run


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An empty checkout of a user who has no docker configuration."""
    for name in ("DOCKER_HOST", "DOCKER_CONFIG", "BASE_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "repo").mkdir()
    return Site(tmp_path / "repo", tmp_path / "state")


@pytest.fixture
def log() -> Log:
    """Where the events go: hand in `log.append`."""
    return Log()
