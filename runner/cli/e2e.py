"""`e2e`: the main job. Plan, ground, leases, verdict, reports - in this order, each of them in its own layer.

Nothing is started before the whole configuration has been found good.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime

import docker
from docker.errors import DockerException

from runner import __version__
from runner.base.errors import InfrastructureError
from runner.base.terms import ExitCode
from runner.cli.facts import environment
from runner.cli.job import Run, conduct, write_environment
from runner.cli.leases import nothing_runs, run_lease, sweep_leftovers
from runner.cli.stacks import ROOT, compose_variables, image_references, needed_images
from runner.cli.variables import apply
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.build import new_run_id, prepare_plan


def e2e(variables: Sequence[str]) -> ExitCode:
    """Run everything and return the exit code of the verdict."""
    apply(variables)
    now = datetime.now(UTC)
    settings, _, plan = prepare_plan(
        run_id=new_run_id(now), now=now, versions={"tito-e2e": __version__, "python": platform.python_version()}
    )
    return conduct(settings, plan, _run_leases)


def _run_leases(run: Run) -> None:
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
