"""The sweep removes runs whose owner is seen to be gone, and nothing else."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from runner.stack import labels, sweep
from runner.stack.lock import held


class FakeObject:
    """A container, network or volume with labels."""

    def __init__(self, kind: str, name: str, found: dict[str, str], log: list[str]) -> None:
        self.id = name
        self._kind = kind
        self._log = log
        self.attrs: dict[str, Any] = {"Config": {"Labels": found}} if kind == "container" else {"Labels": found}

    def remove(self, **options: object) -> None:
        self._log.append(f"{self._kind} {self.id}")


class FakeCollection:
    def __init__(self, objects: list[FakeObject]) -> None:
        self._objects = objects

    def list(self, **options: object) -> list[FakeObject]:
        return self._objects

    def get(self, name: str) -> FakeObject:
        return next(item for item in self._objects if item.id == name)


class FakeDocker:
    """A Docker engine that holds one container, network and volume per run."""

    def __init__(self, runs: dict[str, dict[str, str]]) -> None:
        self.removed: list[str] = []
        kinds = {}
        for kind in ("container", "network", "volume"):
            objects = [
                FakeObject(
                    kind, f"{run}-{kind}", {labels.RUN: run, labels.HOST: platform.node(), **extra}, self.removed
                )
                for run, extra in runs.items()
            ]
            kinds[kind] = FakeCollection(objects)
        self.containers, self.networks, self.volumes = kinds["container"], kinds["network"], kinds["volume"]


def _sweep(docker: FakeDocker, *, everything: bool = False) -> sweep.Swept:
    return sweep.sweep(docker, everything=everything)  # type: ignore[arg-type]


def _dead_lock(tmp_path: Path) -> str:
    path = tmp_path / "dead.lock"
    path.touch()
    return str(path)


def test_a_dead_run_is_removed_containers_first(tmp_path: Path) -> None:
    docker = FakeDocker({"gone": {labels.LOCK: _dead_lock(tmp_path)}})
    swept = _sweep(docker)
    assert [run.run_id for run in swept.removed] == ["gone"]
    assert docker.removed == ["container gone-container", "network gone-network", "volume gone-volume"]
    assert not (tmp_path / "dead.lock").exists()


def test_a_living_run_is_left_even_when_everything_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with held("busy") as lock:
        docker = FakeDocker({"busy": {labels.LOCK: str(lock)}})
        swept = _sweep(docker, everything=True)
    assert docker.removed == []
    assert [(run.run_id, why) for run, why in swept.left] == [("busy", "its process is running")]


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="no lock named"),
        pytest.param({labels.LOCK: "/nowhere/x.lock"}, id="lock file not there"),
        pytest.param({labels.HOST: "another-host"}, id="another host"),
    ],
)
def test_a_run_of_an_unknown_owner_is_left_and_named(extra: dict[str, str], tmp_path: Path) -> None:
    found = {labels.LOCK: _dead_lock(tmp_path), **extra} if labels.HOST in extra else extra
    docker = FakeDocker({"foreign": found})
    swept = _sweep(docker)
    assert docker.removed == []
    assert "sweep --all" in swept.left[0][1]
    assert _sweep(docker, everything=True).removed[0].run_id == "foreign"


def test_a_kept_run_is_left_until_everything_is_asked_for(tmp_path: Path) -> None:
    docker = FakeDocker({"kept": {labels.LOCK: _dead_lock(tmp_path), labels.KEEP: "1"}})
    assert "make down" in _sweep(docker).left[0][1]
    assert docker.removed == []
    assert _sweep(docker, everything=True).removed[0].run_id == "kept"


def _failing(docker: FakeDocker, kind: str, error: Exception) -> None:
    collection = {"container": docker.containers, "network": docker.networks, "volume": docker.volumes}[kind]
    for item in collection.list():

        def fail(error: Exception = error, **options: object) -> None:
            raise error

        item.remove = fail  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", ["container", "network", "volume"])
def test_what_cannot_be_removed_is_named_with_docker_s_words_and_the_rest_is_removed(tmp_path: Path, kind: str) -> None:
    lock = _dead_lock(tmp_path)
    docker = FakeDocker({"gone": {labels.LOCK: lock}})
    _failing(docker, kind, APIError("500 Server Error", explanation="device is busy"))
    swept = _sweep(docker)
    assert swept.removed == []
    ((run, why),) = swept.left
    assert run.run_id == "gone"
    assert why == f"{kind} {f'gone-{kind}'[:12]}: device is busy"
    assert len(docker.removed) == 2
    assert Path(lock).exists(), "the next sweep tries again"


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(NotFound("no such object"), id="somebody else was faster"),
        pytest.param(APIError("removal of container x is already in progress"), id="somebody else is at it"),
    ],
)
def test_what_somebody_else_removes_counts_as_removed(tmp_path: Path, error: Exception) -> None:
    docker = FakeDocker({"gone": {labels.LOCK: _dead_lock(tmp_path)}})
    _failing(docker, "container", error)
    assert [run.run_id for run in _sweep(docker).removed] == ["gone"]


def test_the_counts_of_a_run_are_words_for_a_person() -> None:
    run = sweep.Leftover("x", containers=["a", "b"], networks=["n"])
    assert run.counts == "2 containers, 1 network, 0 volumes"
