"""Real containers, scripted engine: a whole run takes seconds, and every fault can be put in on purpose."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.ground.base import find as find_base
from runner.ground.client import Docker
from runner.ground.site import Site
from runner.stack import labels
from tests.container.second import Second, why_not

ROOT = Path(__file__).parents[2]
RUN_SECONDS = 240
"""A run with the scripted engine takes about 15 s on a quiet machine; this only ends a hang."""


@dataclass
class Ended:
    """A `python -m runner` process that has ended."""

    code: int
    stdout: str
    stderr: str
    artifacts: Path

    @property
    def run_dir(self) -> Path:
        """The one run directory that it made."""
        (directory,) = [path for path in self.artifacts.iterdir() if path.is_dir()]
        return directory

    @property
    def run_id(self) -> str:
        """Its name is the run id."""
        return self.run_dir.name

    def verdict(self) -> dict[str, Any]:
        """verdict.json."""
        loaded: dict[str, Any] = json.loads((self.run_dir / "verdict.json").read_text())
        return loaded

    def cell(self, name: str) -> dict[str, Any]:
        """One cell of verdict.json by `family/lane/scenario`."""
        return next(cell for cell in self.verdict()["cells"] if cell["cell"] == name)


@dataclass
class Process:
    """A running `python -m runner`, in a process group of its own as a shell would start it."""

    popen: subprocess.Popen[str]
    artifacts: Path
    seen: list[str] = field(default_factory=list)

    def wait_line(self, text: str, seconds: float = RUN_SECONDS) -> str:
        """Read progress lines until one contains `text`; its other output stays in `seen`."""
        assert self.popen.stderr is not None
        deadline = time.monotonic() + seconds
        for line in self.popen.stderr:
            self.seen.append(line)
            if text in line:
                return line
            assert time.monotonic() < deadline, f"no {text!r} within {seconds} s:\n{''.join(self.seen)}"
        raise AssertionError(f"it ended before it said {text!r}:\n{''.join(self.seen)}")

    def end(self, seconds: float = RUN_SECONDS) -> Ended:
        """Wait for the end."""
        stdout, stderr = self.popen.communicate(timeout=seconds)
        return Ended(self.popen.returncode, stdout, "".join(self.seen) + stderr, self.artifacts)


Start = Callable[..., Process]


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    """The project's images and the scripted engine, built where missing."""
    command = [sys.executable, "-m", "runner", "images", "--with-tests"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.fixture(scope="session")
def client(images: dict[str, str]) -> Iterator[docker.DockerClient]:
    """Docker's API."""
    made = docker.from_env()
    yield made
    made.close()


@pytest.fixture
def faulty(images: dict[str, str], client: docker.DockerClient) -> Iterator[Callable[[list[dict[str, Any]]], str]]:
    """Make a scripted engine image that has these faults; removed again afterwards."""
    made: list[str] = []

    def build(faults: list[dict[str, Any]]) -> str:
        text = json.dumps(faults)
        # A tag of this test's own: another worker may make and remove the same image at the same time.
        tag = f"tito-e2e/scripted-engine-with-faults:{uuid.uuid4().hex[:12]}"
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        dockerfile = f'FROM {images["scripted-engine"]}\nENV SCRIPTED_ENGINE_FAULTS="{quoted}"\n'
        client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=tag, rm=True, forcerm=True)
        made.append(tag)
        return tag

    yield build
    for tag in made:
        client.images.remove(tag, force=True)


@pytest.fixture
def start(images: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `python -m runner <arguments>` with the scripted engine unless told otherwise.

    With `second` it runs beside that Docker engine, in its network, and talks to it alone.
    """
    running: list[Process] = []

    def begin(*arguments: str, name: str = "artifacts", second: Second | None = None, **variables: str) -> Process:
        artifacts = tmp_path / name
        artifacts.mkdir(exist_ok=True)
        ours = {
            "CI": "1",
            "ENGINE_IMAGE": images["scripted-engine"],
            "LANES": "v1-openai",
            "ON_INFRA": "stop",
            "ARTIFACTS": str(artifacts),
            "PYTHONUNBUFFERED": "1",
        }
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
        command = [sys.executable, "-m", "runner", *(arguments or ("e2e",))]
        popen = subprocess.Popen(
            second.inside(command) if second else command,
            cwd=ROOT,
            env={**plain, **ours, **(second.environment if second else {}), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        process = Process(popen, artifacts)
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.popen.poll() is None:
            process.popen.terminate()
        process.popen.communicate(timeout=120)


@pytest.fixture(scope="session")
def second(images: dict[str, str]) -> Iterator[Second]:
    """A second Docker engine that has the images of a run. Tests may restart it and put things on its PATH."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    base = find_base(Site.here(ROOT), Docker())
    made = Second()
    try:
        made.start()
        wanted = [images[name] for name in ("session-server", "runner", "scripted-engine")]
        made.load([*([base.image] if base else []), *wanted])
        yield made
    finally:
        made.close()


@dataclass(frozen=True)
class Left:
    """Docker objects that carry the label of one run."""

    containers: Sequence[str]
    networks: Sequence[str]
    volumes: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.containers or self.networks or self.volumes)


def left_on(client: docker.DockerClient, run_id: str) -> Left:
    """What is there of a run on this Docker engine."""
    wanted: dict[str, Any] = {"label": f"{labels.RUN}={run_id}"}
    return Left(
        [item.name for item in client.containers.list(all=True, filters=wanted, ignore_removed=True)],
        [item.name for item in client.networks.list(filters=wanted)],
        [item.name for item in client.volumes.list(filters=wanted)],
    )


@pytest.fixture
def left(client: docker.DockerClient) -> Callable[[str], Left]:
    """What is there of a run."""
    return lambda run_id: left_on(client, run_id)
