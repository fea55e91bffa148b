"""Leases whose servers are started here: the ground they stand on, and each from its Compose variables to evidence."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import docker
from docker.errors import DockerException

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.base.settings import EngineKind
from runner.cli.facts import environment
from runner.cli.gpu import free_devices, have_image
from runner.cli.job import Run, write_environment, write_lease_ledger
from runner.cli.lease import run_lease
from runner.cli.stacks import ROOT, compose_variables, image_references, needed_images
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.expected import lease_seconds
from runner.plan.model import Plan, PlannedLease
from runner.stack import sweep
from runner.stack.client import connect
from runner.stack.devices import Devices, Stop, run_packed
from runner.stack.lease import unexpected

_SCRIPTED = (
    "ENGINE=scripted: no SGLang and no model take part; what is verified are session servers, templates and verifier"
)


def run_leases(run: Run) -> None:
    """Prepare the ground and run every lease. What breaks is written to the lease's ledger; Ctrl-C passes through."""
    try:
        site = Site.here(ROOT, base_image=run.settings.base_image, engine=run.settings.engine)
        if run.settings.engine is EngineKind.SCRIPTED:
            run.emit(NoteEvent(level="warning", message=_SCRIPTED))
        ground = prepare(site, needed_images(run.settings), run.emit)
        os.environ.update(ground.env)
        client = connect()
        try:
            images = image_references(run.settings, ground.images)
            if run.settings.engine is EngineKind.GPU:
                have_image(client, images["engine"], run.emit)
            write_environment(
                run, environment(ROOT, ground.engine, ground.compose, ground.base.image, client, images, run.secrets)
            )
            sweep_leftovers(client, run.emit)
        except BaseException:
            client.close()
            raise
    except (InfrastructureError, DockerException) as error:
        nothing_runs(run, error)
        return
    try:
        start_all(
            run, client, lambda lease: compose_variables(run.plan, lease, images, lock=run.lock, keep=run.settings.keep)
        )
    finally:
        client.close()


Variables = Callable[[PlannedLease], Mapping[str, str]]
"""Makes the Compose variables of a lease."""


def start_all(run: Run, client: docker.DockerClient, variables: Variables) -> None:
    """On GPUs side by side, as many as devices allow; on the CPU as many as `LEASES` says."""
    gpu = any(lease.engine is EngineKind.GPU for lease in run.plan.leases)
    at_once = None if gpu else run.settings.leases_at_once
    if at_once == 1 or (len(run.plan.leases) == 1 and not gpu):
        for lease in run.plan.leases:
            run_lease(run, lease, client, variables(lease))
        return

    def work(lease: PlannedLease, devices: Sequence[str], stop: Stop) -> None:
        if devices:
            run.emit(NoteEvent(message=f"{lease.family}: on GPU {', '.join(devices)}"))
        run_lease(run, lease, client, variables(lease), devices=devices, sleep=stop.sleep)

    def waiting(why: str) -> None:
        run.emit(NoteEvent(message=why))

    devices = Devices(free_devices(run.settings) if gpu else ())
    try:
        run_packed(in_order(run.plan), devices, work, waiting=waiting, at_once=at_once)
    except InfrastructureError as error:  # devices went away since the preflight; raised before any lease began
        nothing_runs(run, error)


def in_order(plan: Plan) -> list[PlannedLease]:
    """Leases in the order in which they get devices: those that need most first, then those that take longest."""
    seconds = {lease.family: lease_seconds(lease, plan.cells_of(lease.family)) for lease in plan.leases}
    return sorted(plan.leases, key=lambda lease: (-lease.gpus, -seconds[lease.family]))


def nothing_runs(run: Run, error: Exception) -> None:
    """The ground is not there: say so, and write it down for every lease."""
    run.emit(NoteEvent(level="error", message=str(error)))
    for lease in run.plan.leases:
        write_lease_ledger(run, lease, unexpected(error))


def sweep_leftovers(client: docker.DockerClient, emit: Emit) -> None:
    """Remove what killed runs left, and say what was removed and what was left alone."""
    swept = sweep.sweep(client)
    for gone in swept.removed:
        emit(NoteEvent(message=f"removed what the killed run {gone.run_id} had left: {gone.counts}"))
    for left, why in swept.left:
        emit(NoteEvent(message=f"left alone: run {left.run_id} ({left.counts}): {why}"))
