"""Leases whose servers are started here: the ground they stand on, and each from its Compose variables to evidence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

import docker
from docker.errors import DockerException, ImageNotFound

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.base.settings import EngineKind
from runner.cli.facts import environment
from runner.cli.gpu import cache_dir, chat_template, free_devices
from runner.cli.job import Run, write_environment, write_lease_ledger
from runner.cli.stacks import ENV_NAME, ROOT, compose_variables, image_references, needed_images, project_name
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.expected import lease_seconds
from runner.plan.model import Plan, PlannedLease
from runner.stack import sweep
from runner.stack.devices import Devices, Stop, run_packed
from runner.stack.failure import ServiceFailure, StackError
from runner.stack.lease import Budgets, Lease, unexpected
from runner.stack.override import OVERRIDE_NAME, write_override
from runner.stack.project import Project, write_env_file
from runner.verdict.artifacts import PLAN_NAME

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
        client = docker.from_env()
        try:
            images = image_references(run.settings, ground.images)
            if run.settings.engine is EngineKind.GPU:
                _have(client, images["engine"], run.emit)
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


def _have(client: docker.DockerClient, reference: str, emit: Emit) -> None:
    """Pull an image that is not here. Raises DockerException where it cannot be had."""
    try:
        client.images.get(reference)
    except ImageNotFound:
        emit(NoteEvent(message=f"pulling {reference} (tens of GB the first time)"))
        client.images.pull(reference)


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


def run_lease(
    run: Run,
    planned: PlannedLease,
    client: docker.DockerClient,
    variables: Mapping[str, str],
    *,
    devices: Sequence[str] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Drive one lease under these Compose variables, on these GPUs. What breaks is written to its ledger.

    `sleep` is how it waits; what that raises (Ctrl-C) passes through, after evidence was collected.
    """
    env_file = run.directory / "leases" / planned.family / ENV_NAME
    env_file.parent.mkdir(parents=True)
    write_env_file(env_file, variables)
    overrides = []
    if planned.engine is EngineKind.GPU:
        overrides = [env_file.with_name(OVERRIDE_NAME)]
        write_override(overrides[0], planned, devices, cache_dir(run.settings), chat_template(planned))
    project = Project(project_name(run.plan.run_id, planned.family), ROOT, env_file, overrides)
    failure: ServiceFailure | None = None
    try:
        resolved = run.redact(project.resolved().encode())
        (env_file.parent / "compose.resolved.yaml").write_bytes(resolved)
        lease = Lease(
            client=client,
            project=project,
            run_id=run.plan.run_id,
            family=planned.family,
            run_dir=run.directory,
            budgets=Budgets(planned.ready_timeout, run.plan.timeout, run.plan.stall_timeout),
            redact=run.redact,
            emit=run.emit,
            sleep=sleep,
            keep=run.settings.keep,
        )
        lease.verify((run.directory / PLAN_NAME).read_bytes())
    except StackError as error:
        failure = error.failure
        run.emit(NoteEvent(level="error", message=str(error)))
    except (InfrastructureError, DockerException) as error:
        failure = unexpected(error)
        run.emit(NoteEvent(level="error", message=str(error)))
    except KeyboardInterrupt:
        write_lease_ledger(run, planned, None, closed=False)
        raise
    write_lease_ledger(run, planned, failure)


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
