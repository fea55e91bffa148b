"""The lease of a recorded cell started again, from its recorded images and Compose variables.

The images are taken by id, so that a tag that was built anew since cannot slip in. What is not on this Docker engine
is named before anything is made; nothing is built or pulled here, because another image would be another question.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from runner.base.errors import InfrastructureError
from runner.base.events import NoteEvent
from runner.base.settings import EngineKind, Settings
from runner.base.terms import ExitCode
from runner.cli.facts import environment
from runner.cli.gpu import preflight
from runner.cli.host import checkout
from runner.cli.job import Run, conduct, write_environment
from runner.cli.leases import start_all, sweep_leftovers
from runner.cli.record import Record, RecordedImage
from runner.cli.stacks import IMAGE_VARIABLES, OWN_OVERRIDE, ROOT, ownership
from runner.ground import compose, daemon
from runner.ground.site import Site
from runner.plan.model import Plan
from runner.report.console import line_consumer
from runner.stack.client import connect


def repeat(directory: Path, cell: str, settings: Settings, plan: Plan) -> ExitCode:
    """Drive `plan`, which holds `cell` of the run in `directory` alone, on what the run had.

    Raises ConfigurationError for a record that is not complete or a machine that lacks the recorded GPUs,
    InfrastructureError without Docker or an image.
    """
    record = Record.read(directory, cell)
    own_override = directory / "leases" / record.lease.family / OWN_OVERRIDE
    if own_override.is_file():
        settings = settings.model_copy(update={"compose_override": own_override})
    if record.lease.engine is EngineKind.GPU:
        preflight(settings, plan)
    emit = line_consumer()
    engine = daemon.ensure(emit)
    plugin = compose.ensure(Site.here(ROOT), emit, engine.env)
    os.environ.update({**engine.env, **plugin.env})
    client = connect()

    def work(run: Run) -> None:
        here = checkout(ROOT).get("commit", "")
        if record.commit and here and here != record.commit:
            run.emit(NoteEvent(level="warning", message=_other_checkout(record.commit, here)))
        write_environment(run, environment(ROOT, engine, plugin, None, client, images, run.secrets))
        sweep_leftovers(client, run.emit)
        own = ownership(run.lock, keep=False)
        start_all(run, client, lambda lease: record.variables_again(plan.run_id, images, own))

    try:
        images = present(client, record.images, record.commit)
        return conduct(settings, plan, work)
    finally:
        client.close()


def present(client: docker.DockerClient, recorded: Mapping[str, RecordedImage], commit: str) -> dict[str, str]:
    """Kind -> image id, each of them seen on this Docker engine.

    Raises InfrastructureError that names every image that is missing and how to get it.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    pulls: list[str] = []
    for kind in IMAGE_VARIABLES:
        image = recorded[kind]
        for name in (image.id, *image.digests):
            try:
                found[kind] = str(client.images.get(name).id)
                break
            except ImageNotFound:
                continue
        else:
            problems.append(f"{kind}: {image.reference} ({image.id}) {_instead(client, image.reference)}")
            pulls += image.digests[:1]
    if not problems:
        return found
    origin = f" (built from commit {commit})" if commit else ""
    fetch = "; ".join(f"docker pull {digest}" for digest in pulls)
    load = f"bring them over from the machine of the run{origin}: docker save IMAGE | gzip > FILE, docker load < FILE"
    raise InfrastructureError(
        "this Docker engine does not have every image of the recorded run; nothing was started:\n"
        + "\n".join(f"  - {problem}" for problem in problems),
        fetch or load,
    )


def _instead(client: docker.DockerClient, reference: str) -> str:
    try:
        other = client.images.get(reference).id
    except ImageNotFound:
        return "is not here"
    return f"is not here; the name now means {other}, which was built later"


def _other_checkout(then: str, here: str) -> str:
    return (
        f"the run was made by commit {then[:12]} and this checkout is at {here[:12]}: images and settings are the"
        f" recorded ones, compose.yaml is this checkout's (git checkout {then[:12]} for the same)"
    )
