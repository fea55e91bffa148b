"""A lease whose ground breaks is created once more, for the cells that this cost, and the ledger says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import InfrastructureError
from runner.base.events import Event, NoteEvent
from runner.base.settings import Settings
from runner.base.terms import ExitCode, Outcome
from runner.cli import lease as module
from runner.cli.job import Run
from runner.cli.lease import run_lease
from runner.cli.steps import HostLedgers
from runner.ledger.paths import cell_ledger
from runner.ledger.records import InfraRecord, SampleRecord
from runner.ledger.writer import LedgerWriter
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan, PlannedCell
from runner.report.write import write_plan
from runner.stack.failure import PortError, ServiceFailure, StackError
from runner.stack.redact import Redactor
from runner.verdict.artifacts import load_run
from runner.verdict.engine import write_engine
from runner.verdict.model import CellVerdict
from tests.unit.cli.conftest import engine_facts

V1, V2, ANTHROPIC = (f"qwen3/{lane}/baseline" for lane in ("v1-openai", "v2-openai", "v2-anthropic"))
DIED = StackError(ServiceFailure("engine", "while lanes were running: killed (SIGKILL)", 137, False, ["last words"]))


def record(cell: PlannedCell, index: int, **changes: Any) -> SampleRecord:
    sample = cell.samples[index]
    values: dict[str, Any] = {
        "sample_index": index,
        "driver_events": [*cell.required_events, *cell.required_once],
        "had_assistant_mismatch": False,
        "total_mismatches": 0,
        "assistant_mismatch_count": 0,
        "hard_mismatch_count": 0,
        "hard_mismatch_types": [],
        "turns": 5,
        "seconds": 1.0,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "seed": sample.seed,
        "stream": sample.stream,
        "worker": sample.worker,
        "session_id": f"s{index}",
    }
    return SampleRecord.model_validate(values | changes)


@dataclass
class Try:
    """What one try leaves and how it ends. The second sample of `lost` cells ends as infra, `hard` cells fail."""

    ends: Exception | None = None
    up: bool = True
    lost: tuple[str, ...] = ()
    hard: tuple[str, ...] = ()


@dataclass
class Stage:
    """Stands for Docker and the runner container: plays one `Try` after the other."""

    directory: Path
    tries: list[Try]
    driven: list[list[str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    left: list[object] = field(default_factory=list)

    def lease(self, **given: Any) -> _Lease:
        return _Lease(self, **given)


class _Lease:
    def __init__(self, stage: Stage, **given: Any) -> None:
        self.stage = stage
        self.run_dir: Path = given["run_dir"]
        self.was_up = False

    def verify(self, plan: bytes) -> int:
        told = Plan.model_validate_json(plan)
        self.stage.driven.append([str(cell.id) for cell in told.cells])
        played = self.stage.tries[len(self.stage.driven) - 1]
        self.was_up = played.up
        (self.run_dir / "logs" / "qwen3").mkdir(parents=True)
        (self.run_dir / "logs" / "qwen3" / "engine.log").write_text(f"try {len(self.stage.driven)}")
        if played.up:
            write_engine(self.run_dir, engine_facts("qwen3"))
        for cell in told.cells if played.up else []:
            with LedgerWriter(
                cell_ledger(self.run_dir, cell.id), run=told.run_id, cell=str(cell.id), writer="runner"
            ) as ledger:
                changes = (
                    {"hard_mismatch_count": 1, "hard_mismatch_types": ["x"]} if str(cell.id) in played.hard else {}
                )
                first, *others = cell.samples
                ledger.write(record(cell, first.index, **changes))
                for sample in others:
                    broken = InfraRecord(sample_index=sample.index, service="session-v1", message="it does not answer")
                    ledger.write(broken if str(cell.id) in played.lost else record(cell, sample.index))
        if played.ends is not None:
            raise played.ends
        return 0


class _Project:
    def __init__(self, *given: object) -> None:
        pass

    def resolved(self) -> str:
        return "services: {}\n"


Played = Callable[..., tuple[Stage, dict[str, CellVerdict], ExitCode]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    """Play these tries under these settings; gives what happened, the verdicts by cell, and the exit code."""

    def run(*tries: Try, remains: list[str] | None = None, **settings: Any) -> Any:
        chosen = Settings.model_validate({"samples": 2, **settings})
        now = datetime(2026, 1, 2, tzinfo=UTC)
        plan = build_plan(chosen, load_families(), run_id="run", now=now, versions={})
        directory = tmp_path / "run"
        directory.mkdir()
        write_plan(directory, plan)
        stage = Stage(directory, list(tries))
        monkeypatch.setattr(module, "Lease", stage.lease)
        monkeypatch.setattr(module, "Project", _Project)
        monkeypatch.setattr(module, "find", lambda *given: ["left"] if remains else [])
        monkeypatch.setattr(module, "remove", lambda *given: remains or [])
        redact = Redactor(["sentinel-secret"])
        ledgers = HostLedgers(directory, "run", ["qwen3"], redact)
        made = Run(chosen, plan, directory, tmp_path / "lock", redact, 1, ledgers, stage.events.append)
        run_lease(made, plan.leases[0], None, {"TITO_RUN_ID": "run"})  # type: ignore[arg-type]
        _, verdict = load_run(directory)
        return stage, {cell.cell: cell for cell in verdict.cells}, verdict.exit_code

    return run


def notes(stage: Stage) -> str:
    return "\n".join(event.message for event in stage.events if isinstance(event, NoteEvent))


def test_only_what_the_break_cost_is_driven_again_and_it_stays_infra(play: Played) -> None:
    stage, cells, code = play(Try(DIED, lost=(V1,)), Try())
    assert stage.driven == [[V1, V2, ANTHROPIC], [V1]]
    assert (cells[V1].outcome, cells[V1].passed_again) == (Outcome.INFRA, True)
    assert "killed (SIGKILL)" in cells[V1].reasons[0].message
    assert cells[V1].log_tail == ["last words"]
    assert (cells[V2].outcome, cells[ANTHROPIC].outcome) == (Outcome.PASS, Outcome.PASS)
    assert code is ExitCode.INFRASTRUCTURE
    kept = stage.directory / "leases/qwen3/try-1"
    assert (kept / "logs/engine.log").read_text() == "try 1"
    assert (stage.directory / "logs/qwen3/engine.log").read_text() == "try 2"
    assert "it does not answer" in (kept / "cells" / V1 / "ledger.jsonl").read_text()
    assert "created once more" in notes(stage)


def test_where_a_second_try_is_accepted_the_cell_passes_on_retry(play: Played) -> None:
    _, cells, code = play(Try(DIED, lost=(V1,)), Try(), on_infra="accept")
    assert (cells[V1].outcome, cells[V1].passed_on_retry) == (Outcome.PASS, True)
    assert code is ExitCode.OK


def test_a_second_break_is_the_end(play: Played) -> None:
    stage, cells, code = play(Try(DIED, lost=(V1,)), Try(DIED, lost=(V1,)))
    assert len(stage.driven) == 2
    assert (cells[V1].outcome, cells[V1].passed_again) == (Outcome.INFRA, False)
    assert code is ExitCode.INFRASTRUCTURE


def test_a_break_that_only_the_verifier_saw_is_tried_again_as_well(play: Played) -> None:
    stage, cells, _ = play(Try(lost=(V2,)), Try())
    assert stage.driven[1] == [V2]
    assert "it does not answer" in cells[V2].reasons[0].message


def test_a_failed_check_is_never_driven_away(play: Played) -> None:
    stage, cells, code = play(Try(DIED, lost=(V1, V2), hard=(V1,)), Try())
    assert stage.driven[1] == [V2]
    assert cells[V1].failed
    assert code is ExitCode.VERIFICATION_FAILED


def test_a_verification_failure_alone_is_no_reason_for_a_second_try(play: Played) -> None:
    stage, _, code = play(Try(hard=(V1,)))
    assert len(stage.driven) == 1
    assert code is ExitCode.VERIFICATION_FAILED


def test_a_lease_that_does_not_get_up_is_not_tried_again(play: Played) -> None:
    crashed = StackError(ServiceFailure("engine", "did not start: ended with exit code 1", 1))
    stage, cells, code = play(Try(crashed, up=False))
    assert len(stage.driven) == 1
    assert cells[V1].outcome is Outcome.INFRA
    assert code is ExitCode.INFRASTRUCTURE


@pytest.mark.parametrize(("port", "tries"), [(None, 2), (9000, 1)])
def test_a_port_that_docker_chose_is_chosen_again_and_one_that_was_asked_for_is_not(
    play: Played, port: int | None, tries: int
) -> None:
    given = {} if port is None else {"session_server_port": port}
    stage, _, _ = play(Try(PortError("port 9000 is taken"), up=False), Try(), **given)
    assert len(stage.driven) == tries


@pytest.mark.parametrize("setting", [{"on_infra": "stop"}, {"keep": True}])
def test_a_person_can_have_it_end_at_the_first_break(play: Played, setting: dict[str, Any]) -> None:
    stage, cells, code = play(Try(DIED, lost=(V1,)), **setting)
    assert len(stage.driven) == 1
    assert (cells[V1].outcome, cells[V1].passed_again) == (Outcome.INFRA, False)
    assert code is ExitCode.INFRASTRUCTURE


def test_no_second_try_stands_among_the_remains_of_the_first(play: Played) -> None:
    stage, _, _ = play(Try(DIED, lost=(V1,)), remains=["container 0123: removal failed"])
    assert len(stage.driven) == 1
    assert "not created again: container 0123" in notes(stage)


def test_an_interrupt_is_no_break(play: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(Try(KeyboardInterrupt(), lost=(V1,)))  # type: ignore[arg-type]


def test_what_broke_is_written_without_secrets(play: Played) -> None:
    told = StackError(ServiceFailure("engine", "ended, said sentinel-secret", 1, log_tail=["sentinel-secret"]))
    stage, _, _ = play(Try(told, lost=(V1,)), Try(InfrastructureError("sentinel-secret"), lost=(V1,)))
    text = (stage.directory / "leases/qwen3/ledger.jsonl").read_text()
    assert "recreated" in text
    assert "sentinel-secret" not in text


def test_workers_that_nobody_is_planned_for_are_named(play: Played) -> None:
    stage, _, _ = play(Try(), workers=3, samples=1, lanes="v1-openai")
    assert "no planned sample goes to session-v1-" in notes(stage)
    plan = json.loads((stage.directory / "plan.json").read_text())
    assert plan["leases"][0]["workers"] == 3
