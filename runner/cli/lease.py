"""One lease of a run: tried, and created once more where something underneath broke under cells that were driven.

Verifying is expensive to begin and the ground is not what is verified, so a dead engine or a lost GPU gets one more
try; never more, and never silently. Only the cells that the break cost are driven again; whatever was seen to its end,
a failed check above all, stays as it was seen. The evidence of the first try is set aside beside the lease's ledger,
which says what happened; what that means for the verdict is the gate's business.

A lease that does not get up is not tried again: what keeps an engine from starting is still there the second time. The
exception is a port that Docker chose and others took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import DockerException

from runner.base.errors import InfrastructureError
from runner.base.events import NoteEvent
from runner.base.settings import EngineKind, OnInfra
from runner.base.terms import Outcome
from runner.cli.gpu import cache_dir, chat_template
from runner.cli.job import Run, write_lease_ledger
from runner.cli.stacks import ENV_NAME, OWN_OVERRIDE, ROOT, project_name
from runner.ledger.reader import Ledger
from runner.ledger.records import InfraRecord, RecreatedRecord
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.plan.workers import WORKERS_NAME
from runner.stack.failure import PortError, ServiceFailure, StackError
from runner.stack.lease import Budgets, Lease, unexpected
from runner.stack.override import OVERRIDE_NAME, write_override
from runner.stack.project import Project, write_env_file
from runner.stack.services import worker_names
from runner.stack.sweep import find, remove
from runner.verdict.artifacts import load_ledgers
from runner.verdict.gate import judge
from runner.verdict.model import CellVerdict

FIRST_TRY = "try-1"
"""In the lease's directory: what the first try left, where there was a second."""


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
    if run.settings.compose_override is not None:
        overrides.append(run.settings.compose_override.resolve())
        env_file.with_name(OWN_OVERRIDE).write_bytes(run.redact(overrides[-1].read_bytes()))
    project = Project(project_name(run.plan.run_id, planned.family), ROOT, env_file, overrides)
    _note_idle(run, planned)
    try:
        ended = _attempt(run, planned, run.plan, client, project, sleep)
        lost = cost(run, planned, ended.failure)
        wanted = bool(lost) and _may_recreate(run, ended) and _gone(run, planned, client)
        if wanted and _set_aside(run, planned, lost, ended.failure):
            again = run.plan.model_copy(update={"cells": [cell for cell, _ in lost]})
            ended = _attempt(run, planned, again, client, project, sleep)
    except KeyboardInterrupt:
        write_lease_ledger(run, planned, None, closed=False)
        raise
    write_lease_ledger(run, planned, ended.failure)


Lost = tuple[PlannedCell, CellVerdict]
"""A cell that the ground cost samples, and what its evidence says."""


@dataclass(frozen=True)
class _Ended:
    """How a try ended: what broke, whether the servers had been up, and whether it was over ports that Docker chose."""

    failure: ServiceFailure | None
    was_up: bool = True
    unlucky: bool = False


def _attempt(
    run: Run,
    planned: PlannedLease,
    plan: Plan,
    client: docker.DockerClient,
    project: Project,
    sleep: Callable[[float], None],
) -> _Ended:
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
        workers=planned.workers,
        ports=planned.ports,
        keep=run.settings.keep,
    )
    try:
        resolved = run.redact(project.resolved().encode())
        (run.directory / "leases" / planned.family / "compose.resolved.yaml").write_bytes(resolved)
        lease.verify(plan.model_dump_json(indent=2).encode())
    except StackError as error:
        run.emit(NoteEvent(level="error", message=str(error)))
        return _Ended(error.failure, lease.was_up)
    except (InfrastructureError, DockerException) as error:
        run.emit(NoteEvent(level="error", message=str(error)))
        return _Ended(unexpected(error), lease.was_up, isinstance(error, PortError) and not planned.ports)
    return _Ended(None)


def cost(run: Run, planned: PlannedLease, failure: ServiceFailure | None) -> list[Lost]:
    """The cells of the lease that lost samples to the ground and in which no check was seen to fail."""
    host = [] if failure is None else [Ledger("host", records=[_infra(failure)])]
    ledgers = load_ledgers(run.directory)
    judged = [
        (cell, judge(run.plan, cell, ledgers.get(str(cell.id), []), host))
        for cell in run.plan.cells_of(planned.family)
        if cell.applicable
    ]
    return [(cell, verdict) for cell, verdict in judged if verdict.outcome is Outcome.INFRA and not verdict.failed]


def _may_recreate(run: Run, ended: _Ended) -> bool:
    if run.settings.on_infra is OnInfra.STOP or run.settings.keep:
        return False
    return ended.was_up or ended.unlucky


def _gone(run: Run, planned: PlannedLease, client: docker.DockerClient) -> bool:
    """Whether nothing of the first try is left; a second one among its remains would not be a new lease."""
    try:
        problems = [text for left in find(client, run.plan.run_id, planned.family) for text in remove(client, left)]
    except DockerException as error:
        problems = [f"Docker does not answer: {error}"]
    if problems:
        run.emit(NoteEvent(level="warning", message=f"{planned.family}: not created again: {'; '.join(problems)}"))
    return not problems


def _set_aside(run: Run, planned: PlannedLease, lost: Sequence[Lost], failure: ServiceFailure | None) -> bool:
    """Say in the lease's ledger why there is a second try, and move the evidence of the first out of its way.

    False where the ledger cannot be written: a second try that nobody could see must not be.
    """
    own = run.directory / "leases" / planned.family
    kept = own / FIRST_TRY
    names = [str(cell.id) for cell, _ in lost]
    broke = _infra(failure or ServiceFailure("runner", f"the verifier saw that {lost[0][1].reasons[0].message}"))
    record = RecreatedRecord(
        service=broke.service,
        message=broke.message,
        exit_code=broke.exit_code,
        oom_killed=broke.oom_killed,
        log_tail=broke.log_tail,
        cells=names,
        kept=str(kept.relative_to(run.directory)),
    )
    try:
        run.ledgers.write(planned.family, record)
    except OSError as error:
        run.emit(NoteEvent(level="error", message=f"{planned.family}: not created again, its ledger fails: {error}"))
        return False
    for cell, _ in lost:
        _move(run.directory / "cells" / str(cell.id), kept / "cells" / str(cell.id))
    _move(run.directory / "logs" / planned.family, kept / "logs")
    for name in ("states.json", WORKERS_NAME):
        _move(own / name, kept / name)
    what = f"{planned.family}: created once more, for {', '.join(names)}; the first try is kept in {kept}"
    run.emit(NoteEvent(level="warning", message=what))
    return True


def _move(source: Path, target: Path) -> None:
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def _infra(failure: ServiceFailure) -> InfraRecord:
    return InfraRecord(
        service=failure.service,
        message=failure.message,
        exit_code=failure.exit_code,
        oom_killed=failure.oom_killed,
        log_tail=failure.log_tail,
    )


def _note_idle(run: Run, planned: PlannedLease) -> None:
    """Say which session servers no planned sample goes to: what they do is not verified."""
    used: dict[str, set[int]] = {}
    for cell in run.plan.cells_of(planned.family):
        used.setdefault(cell.lane.service, set()).update(sample.worker for sample in cell.samples)
    idle = [
        name
        for service, workers in used.items()
        if workers
        for index, name in enumerate(worker_names(service, planned.workers))
        if index not in workers
    ]
    if idle:
        said = f"WORKERS={planned.workers}, and no planned sample goes to {', '.join(idle)}; SAMPLES={planned.workers}"
        run.emit(NoteEvent(level="warning", message=f"{planned.family}: {said} reaches every one of them"))
