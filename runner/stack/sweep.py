"""Remove what killed runs left behind: only what carries our label, and only where the owner is seen to be gone.

A run that ended by itself, by an error or by Ctrl-C has removed its own things; what is found here was left by
SIGKILL, a power cut or a restarted Docker engine. Runs of other processes, users and machines are never touched.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import docker
from docker.errors import APIError, NotFound

from runner.stack import labels
from runner.stack.lock import Owner, owner


@dataclass
class Leftover:
    """All Docker objects of one run."""

    run_id: str
    lock: str = ""
    host: str = ""
    keep: bool = False
    containers: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """For a person: `3 containers, 1 network, 2 volumes`."""
        parts = (("container", self.containers), ("network", self.networks), ("volume", self.volumes))
        return ", ".join(f"{len(ids)} {name}{'' if len(ids) == 1 else 's'}" for name, ids in parts)

    def state(self) -> Owner:
        """Whether its owner lives, as far as this host can tell."""
        if not self.lock or self.host != platform.node():
            return Owner.UNKNOWN
        return owner(Path(self.lock))


@dataclass(frozen=True)
class Swept:
    """What a sweep did: runs removed, and runs left with the reason why."""

    removed: list[Leftover]
    left: list[tuple[Leftover, str]]


class _Labelled(Protocol):
    """A Docker object in a list answer."""

    attrs: dict[str, object]


def _label_map(attrs: Mapping[str, object]) -> Mapping[str, str]:
    config = attrs.get("Config")
    if isinstance(config, dict) and isinstance(config.get("Labels"), dict):
        found: Mapping[str, str] = config["Labels"]
        return found
    plain = attrs.get("Labels")
    return plain if isinstance(plain, dict) else {}


def find(client: docker.DockerClient, run_id: str = "", family: str = "") -> list[Leftover]:
    """Everything on this Docker engine that carries our run label, by run; of one run or one lease where named."""
    wanted_labels = [f"{labels.RUN}={run_id}" if run_id else labels.RUN]
    if family:
        wanted_labels.append(f"{labels.FAMILY}={family}")
    wanted: dict[str, str | list[str] | bool] = {"label": wanted_labels}
    runs: dict[str, Leftover] = {}

    def note(attrs: Mapping[str, object]) -> Leftover:
        found = _label_map(attrs)
        run = runs.setdefault(found[labels.RUN], Leftover(found[labels.RUN]))
        run.lock = run.lock or found.get(labels.LOCK, "")
        run.host = run.host or found.get(labels.HOST, "")
        run.keep = run.keep or found.get(labels.KEEP) == "1"
        return run

    for container in client.containers.list(all=True, filters=wanted, ignore_removed=True):
        note(container.attrs).containers.append(str(container.id))
    for network in client.networks.list(filters=wanted):
        note(network.attrs).networks.append(str(network.id))
    for volume in client.volumes.list(filters=wanted):
        note(volume.attrs).volumes.append(str(volume.id))
    return sorted(runs.values(), key=lambda run: run.run_id)


def remove(client: docker.DockerClient, run: Leftover) -> list[str]:
    """Remove one run's objects: containers, then networks and volumes. Returns what could not be removed and why."""
    problems: list[str] = []

    def attempt(kind: str, ids: Iterable[str]) -> None:
        for item in ids:
            try:
                if kind == "container":
                    client.containers.get(item).remove(force=True, v=True)
                elif kind == "network":
                    client.networks.get(item).remove()
                else:
                    client.volumes.get(item).remove(force=True)
            except NotFound:
                continue
            except APIError as error:
                # "removal ... is already in progress" is somebody else's removal of the same object: as good as ours.
                if "already in progress" not in str(error):
                    problems.append(f"{kind} {item[:12]}: {error.explanation or error}")

    attempt("container", run.containers)
    attempt("network", run.networks)
    attempt("volume", run.volumes)
    return problems


def sweep(client: docker.DockerClient, *, everything: bool = False) -> Swept:
    """Remove the runs whose owner is gone.

    `everything` also takes kept runs and runs of unknown owners; runs whose process lives are never touched.
    """
    removed: list[Leftover] = []
    left: list[tuple[Leftover, str]] = []
    for run in find(client):
        state = run.state()
        if state is Owner.ALIVE:
            left.append((run, "its process is running"))
        elif run.keep and not everything:
            left.append((run, "it was started to be kept (`make up` or KEEP=1); `make down` removes it"))
        elif state is Owner.UNKNOWN and not everything:
            left.append((run, "its owner is not known on this host; `python -m runner sweep --all` removes it"))
        elif problems := remove(client, run):
            left.append((run, "; ".join(problems)))
        else:
            if run.lock and run.host == platform.node():
                Path(run.lock).unlink(missing_ok=True)
            removed.append(run)
    return Swept(removed, left)
