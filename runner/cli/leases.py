"""Leases whose servers are started here: the ground they stand on, and each from its Compose variables to evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping

import docker
from docker.errors import DockerException

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.cli.facts import environment
from runner.cli.job import Run, write_environment, write_lease_ledger
from runner.cli.stacks import ENV_NAME, ROOT, compose_variables, image_references, needed_images, project_name
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.model import PlannedLease
from runner.stack import sweep
from runner.stack.failure import ServiceFailure, StackError
from runner.stack.lease import Budgets, Lease, unexpected
from runner.stack.project import Project, write_env_file
from runner.verdict.artifacts import PLAN_NAME


def run_leases(run: Run) -> None:
    """Prepare the ground and run every lease. What breaks is written to the lease's ledger; Ctrl-C passes through."""
    try:
        site = Site.here(ROOT, base_image=run.settings.base_image, engine=run.settings.engine)
        ground = prepare(site, needed_images(run.settings), run.emit)
        os.environ.update(ground.env)
        client = docker.from_env()
        try:
            images = image_references(run.settings, ground.images)
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
        for lease in run.plan.leases:
            run_lease(run, lease, client, compose_variables(run.plan, lease, images, lock=run.lock, keep=False))
    finally:
        client.close()


def run_lease(run: Run, planned: PlannedLease, client: docker.DockerClient, variables: Mapping[str, str]) -> None:
    """Drive one lease under these Compose variables. What breaks is written to its ledger; Ctrl-C passes through."""
    env_file = run.directory / "leases" / planned.family / ENV_NAME
    env_file.parent.mkdir(parents=True)
    write_env_file(env_file, variables)
    project = Project(project_name(run.plan.run_id, planned.family), ROOT, env_file)
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
