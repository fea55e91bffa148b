"""`e2e`: the main job. Plan, ground, leases, verdict, reports - in this order, each of them in its own layer.

Nothing is started before the whole configuration has been found good. From the moment the run's directory exists, every
way out - failure, time-out, Ctrl-C - leads through the gate and the reports, so that there is always a verdict to read.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docker
from docker.errors import DockerException

from runner import __version__
from runner.base.errors import InfrastructureError
from runner.base.events import Emit, Event, NoteEvent, PhaseEvent
from runner.base.settings import Settings
from runner.base.terms import ExitCode
from runner.cli.facts import environment
from runner.cli.interrupt import first_signal_interrupts
from runner.cli.stacks import ROOT, compose_variables, image_references, needed_images, project_name
from runner.cli.variables import apply
from runner.ground.prepare import Ground, prepare
from runner.ground.site import Site
from runner.ledger.paths import lease_cell, lease_ledger
from runner.ledger.records import InfraRecord
from runner.ledger.writer import LedgerWriter
from runner.plan.build import new_run_id, prepare_plan
from runner.plan.model import Plan, PlannedLease
from runner.report.console import console
from runner.report.write import write_plan, write_reports
from runner.stack import lock, sweep
from runner.stack.failure import ServiceFailure, StackError
from runner.stack.lease import Budgets, Lease, unexpected
from runner.stack.project import Project, write_env_file
from runner.stack.redact import Redactor, secret_values
from runner.verdict.artifacts import PLAN_NAME, load_run


@dataclass(frozen=True)
class Run:
    """What all leases of one run share."""

    settings: Settings
    plan: Plan
    directory: Path
    lock: Path
    redact: Redactor
    emit: Emit


def e2e(variables: Sequence[str]) -> ExitCode:
    """Run everything and return the exit code of the verdict."""
    apply(variables)
    now = datetime.now(UTC)
    settings, _, plan = prepare_plan(
        run_id=new_run_id(now), now=now, versions={"tito-e2e": __version__, "python": platform.python_version()}
    )
    directory = settings.artifacts.resolve() / plan.run_id
    directory.mkdir(parents=True)
    write_plan(directory, plan)
    secrets = secret_values(os.environ)
    phases: list[PhaseEvent] = []
    interrupted = False
    with ExitStack() as stack:
        stack.enter_context(first_signal_interrupts())
        cells = [str(cell.id) for cell in plan.cells if cell.applicable]
        show = stack.enter_context(console(settings, plan))

        def emit(event: Event) -> None:
            if isinstance(event, PhaseEvent):
                phases.append(event)
            show(event)

        emit(NoteEvent(message=f"run {plan.run_id}: {len(cells)} of {len(plan.cells)} cells to drive, {directory}"))
        run = Run(settings, plan, directory, stack.enter_context(lock.held(plan.run_id)), Redactor(secrets), emit)
        try:
            _run_leases(run, len(secrets))
        except KeyboardInterrupt:
            interrupted = True
            emit(NoteEvent(level="warning", message="interrupted: the verdict covers what was done until then"))
    plan, verdict = load_run(directory)
    write_reports(plan, verdict, directory, settings, phases=phases)
    return ExitCode.INTERRUPTED if interrupted else verdict.exit_code


def _run_leases(run: Run, secrets: int) -> None:
    """Prepare the ground and run every lease. What breaks is written to the lease's ledger; Ctrl-C passes through."""
    try:
        site = Site.here(ROOT, base_image=run.settings.base_image, engine=run.settings.engine)
        ground = prepare(site, needed_images(run.settings), run.emit)
        os.environ.update(ground.env)
        client = docker.from_env()
        try:
            images = image_references(run.settings, ground.images)
            _describe(run, ground, client, images, secrets)
            _sweep(client, run.emit)
        except BaseException:
            client.close()
            raise
    except (InfrastructureError, DockerException) as error:
        run.emit(NoteEvent(level="error", message=str(error)))
        for lease in run.plan.leases:
            _write_lease_ledger(run, lease, unexpected(error))
        return
    try:
        for lease in run.plan.leases:
            _run_lease(run, lease, client, images)
    finally:
        client.close()


def _describe(run: Run, ground: Ground, client: docker.DockerClient, images: dict[str, str], secrets: int) -> None:
    facts = environment(ROOT, ground, client, images, secrets)
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (run.directory / "environment.json").write_text(text, encoding="utf-8")


def _sweep(client: docker.DockerClient, emit: Emit) -> None:
    swept = sweep.sweep(client)
    for gone in swept.removed:
        emit(NoteEvent(message=f"removed what the killed run {gone.run_id} had left: {gone.counts}"))
    for left, why in swept.left:
        emit(NoteEvent(message=f"left alone: run {left.run_id} ({left.counts}): {why}"))


def _run_lease(run: Run, planned: PlannedLease, client: docker.DockerClient, images: dict[str, str]) -> None:
    env_file = run.directory / "leases" / planned.family / "compose.env"
    env_file.parent.mkdir(parents=True)
    write_env_file(env_file, compose_variables(run.plan, planned, images, lock=run.lock, keep=False))
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
        _write_lease_ledger(run, planned, None, closed=False)
        raise
    _write_lease_ledger(run, planned, failure)


def _write_lease_ledger(run: Run, lease: PlannedLease, failure: ServiceFailure | None, *, closed: bool = True) -> None:
    """What the host saw of a lease. Without its trailer where the host itself was interrupted."""
    path = lease_ledger(run.directory, lease.family)
    writer = LedgerWriter(path, run=run.plan.run_id, cell=lease_cell(lease.family), writer="host")
    if failure is not None:
        tail = [run.redact(line.encode()).decode("utf-8", "replace") for line in failure.log_tail]
        writer.write(
            InfraRecord(
                service=failure.service,
                message=failure.message,
                exit_code=failure.exit_code,
                oom_killed=failure.oom_killed,
                log_tail=tail,
            )
        )
    if closed:
        writer.close()
    else:
        writer.abandon()
