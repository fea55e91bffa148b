"""`sweep`: remove what killed runs left behind."""

from __future__ import annotations

import os

import docker

from runner.base.errors import InfrastructureError
from runner.base.terms import ExitCode
from runner.ground.client import Docker
from runner.ground.engine import find
from runner.stack import client as api
from runner.stack.sweep import sweep as sweep_runs


def connect() -> docker.DockerClient:
    """The SDK's client of the engine that the docker command line talks to. Starts nothing."""
    found = find(Docker())
    if found.engine is None:
        raise InfrastructureError(f"no Docker engine answers: {found.said}", "make doctor")
    os.environ.update(found.engine.env)
    return api.connect()


def sweep(*, everything: bool) -> ExitCode:
    """Print what was removed and what was left, and why."""
    client = connect()
    try:
        swept = sweep_runs(client, everything=everything)
    finally:
        client.close()
    for run in swept.removed:
        print(f"removed {run.run_id}: {run.counts}")
    for run, why in swept.left:
        print(f"left    {run.run_id}: {run.counts} - {why}")
    if not swept.removed and not swept.left:
        print("nothing of ours is left on this Docker engine")
    return ExitCode.OK
