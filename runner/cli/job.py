"""What every command that makes a run shares: its directory, its lock, its console, its verdict and its reports.

From the moment the directory exists, every way out - failure, time-out, Ctrl-C - leads through the gate and the
reports, so that there is always a verdict to read. What is done in between is the caller's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from runner.base.events import Emit, Event, NoteEvent, PhaseEvent
from runner.base.interrupt import first_signal_interrupts
from runner.base.settings import Settings
from runner.base.terms import ExitCode
from runner.cli.clean import clean, without_secrets
from runner.cli.place import writing
from runner.cli.steps import HostLedgers, interrupt
from runner.ledger.records import InfraRecord
from runner.ledger.sealed import Sealing
from runner.plan.model import Plan, PlannedLease
from runner.report.console import console
from runner.report.write import write_plan, write_reports
from runner.stack import lock
from runner.stack.failure import ServiceFailure
from runner.stack.redact import Redactor, secret_values
from runner.verdict.artifacts import ENVIRONMENT_NAME, load_run
from runner.verdict.model import Verdict


@dataclass(frozen=True)
class Run:
    """What all leases of one run share. `secrets` is how many values are taken out of everything that is kept."""

    settings: Settings
    plan: Plan
    directory: Path
    lock: Path
    redact: Redactor
    secrets: int
    ledgers: HostLedgers
    emit: Emit


def conduct(settings: Settings, plan: Plan, work: Callable[[Run], None]) -> ExitCode:
    """Make the run's directory, do `work`, judge and report. Returns the exit code of the verdict, or 130.

    `work` writes a lease ledger for every lease; what it raises apart from KeyboardInterrupt passes through.
    """
    directory = settings.artifacts.resolve() / plan.run_id
    with writing("ARTIFACTS", settings.artifacts):
        directory.mkdir(parents=True)
        write_plan(directory, plan)
    secrets = secret_values(os.environ)
    redact = Sealing(secrets)
    ledgers = HostLedgers(directory, plan.run_id, [lease.family for lease in plan.leases], redact)
    phases: list[PhaseEvent] = []
    interrupted = False
    with ExitStack() as stack:
        stack.enter_context(first_signal_interrupts())
        cells = [str(cell.id) for cell in plan.cells if cell.applicable]
        show = stack.enter_context(console(settings, plan))

        def emit(said: Event) -> None:
            event = without_secrets(said, redact)
            if isinstance(event, PhaseEvent):
                phases.append(event)
            problem = ledgers.note(event)
            show(event)
            if problem:
                show(NoteEvent(level="error", message=problem))

        emit(NoteEvent(message=f"run {plan.run_id}: {len(cells)} of {len(plan.cells)} cells to drive, {directory}"))
        held = stack.enter_context(lock.held(plan.run_id))
        try:
            work(Run(settings, plan, directory, held, redact, len(secrets), ledgers, emit))
        except KeyboardInterrupt:
            interrupted = True
            for lease in plan.leases:
                ledgers.interrupt(lease.family)
            emit(NoteEvent(level="warning", message="interrupted: the verdict covers what was done until then"))
    clean(directory, redact)
    plan, verdict = load_run(directory)
    _add_engines(directory, verdict, redact)
    write_reports(plan, verdict, directory, settings, phases=phases)
    if not interrupted:
        return verdict.exit_code
    print(f"interrupted: ends with {ExitCode.INTERRUPTED:d}; the verdict above covers what was done until then")
    return ExitCode.INTERRUPTED


def write_environment(run: Run, facts: Mapping[str, object]) -> None:
    """Write environment.json, secrets taken out."""
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (run.directory / ENVIRONMENT_NAME).write_bytes(run.redact(text.encode()))


def _add_engines(directory: Path, verdict: Verdict, redact: Redactor) -> None:
    """Put what was found out about the engines into environment.json, where there is one."""
    path = directory / ENVIRONMENT_NAME
    if not verdict.engines or not path.is_file():
        return
    facts = json.loads(path.read_text(encoding="utf-8"))
    facts["engines"] = {found.family: found.model_dump(mode="json", exclude={"family"}) for found in verdict.engines}
    path.write_bytes(redact((json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode()))


def write_lease_ledger(run: Run, lease: PlannedLease, failure: ServiceFailure | None, *, closed: bool = True) -> None:
    """What the host saw of a lease. Without its trailer where the host itself was interrupted."""
    writer = run.ledgers.take(lease.family)
    if failure is not None:
        record = InfraRecord(
            service=failure.service,
            message=failure.message,
            exit_code=failure.exit_code,
            oom_killed=failure.oom_killed,
            log_tail=failure.log_tail,
        )
        writer.write(InfraRecord.model_validate_json(run.redact(record.model_dump_json().encode())))
    if closed:
        writer.close()
    else:
        interrupt(writer)
