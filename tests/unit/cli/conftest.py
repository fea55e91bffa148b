"""Artifacts as a run leaves them: driven in this process by the real verifier, over a scripted engine."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from runner.base.events import Event
from runner.base.settings import EngineKind, variables
from runner.base.terms import Lane
from runner.lane.verify import verify
from runner.ledger.paths import lease_cell, lease_ledger
from runner.ledger.records import PhaseRecord
from runner.ledger.writer import LedgerWriter
from runner.plan.model import Plan, PlannedCell, PlannedLease
from runner.report.write import write_files, write_plan
from runner.verdict.artifacts import load_run
from runner.verdict.engine import EngineFacts, write_engine
from runner.verdict.models import keep_models
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, SEED, planned_cell, server_app

RUN_ID = "20260101-000000-abc123"
Recorded = Callable[..., "Run"]


@dataclass(frozen=True)
class Run:
    """The artifacts of a run, for tests to change."""

    path: Path

    def session(self, lane: Lane, index: int = 0) -> Path:
        """The evidence of one sample."""
        return self.path / "cells" / "qwen3" / lane / "baseline" / "sessions" / f"{index}.json"

    def edit(self, lane: Lane, index: int, change: Callable[[list[dict[str, object]]], object]) -> None:
        """Change the records in the snapshot of one sample."""
        path = self.session(lane, index)
        body = orjson.loads(path.read_bytes())
        change(body["snapshot"]["records"])
        path.write_bytes(orjson.dumps(body))

    def copy(self, target: Path) -> Run:
        """The same artifacts at another place."""
        shutil.copytree(self.path, target)
        return Run(target)


def engine_facts(family: str) -> EngineFacts:
    """What an engine that can everything says of itself."""
    return EngineFacts(
        family=family,
        version="0.5.23",
        model=f"/models/{family}",
        asked_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1.0,
        capabilities=[],
        determinism=None,
    )


def drive(
    path: Path,
    lanes: Sequence[Lane],
    faults: Sequence[Fault] = (),
    *,
    samples: int = 2,
    cycles: int = 1,
    cells: Sequence[PlannedCell] = (),
) -> Run:
    """Drive qwen3 in these lanes and leave what a run leaves; `cells` replace the baseline cell of each lane."""
    cells = cells or [planned_cell(lane, samples=samples, cycles=cycles) for lane in lanes]
    lease = PlannedLease(
        family="qwen3",
        model="/models/qwen3",
        tokenizer=str(MODEL),
        tito_model="qwen3",
        reasoning_parser="qwen3",
        tool_call_parser="qwen25",
        context_length=8192,
        engine=EngineKind.CPU,
        ready_timeout=60,
    )
    plan = Plan(
        run_id=RUN_ID,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        seed=SEED,
        stall_timeout=30,
        timeout=60,
        leases=[lease],
        cells=list(cells),
    )
    write_plan(path, plan)
    with LedgerWriter(lease_ledger(path, "qwen3"), run=RUN_ID, cell=lease_cell("qwen3"), writer="host") as host:
        host.write(PhaseRecord(phase="starting"))
        with ExitStack() as stack:
            engine_url = stack.enter_context(served(build_engine(ScriptedEngine(MODEL, faults))))
            urls = {
                f"session-{version}": stack.enter_context(served(server_app(version, engine_url)))
                for version in {lane.server.value for lane in lanes}
            }
            host.write(PhaseRecord(phase="up"))
            asyncio.run(verify(plan, "qwen3", path, urls, _ignore))
            write_engine(path, engine_facts("qwen3"))
            host.write(PhaseRecord(phase="verified"))
    keep_models(MODEL, path, "qwen3")
    write_files(*load_run(path), path)
    return Run(path)


def _ignore(event: Event) -> None:
    pass


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)


@pytest.fixture(scope="session")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    faults = [Fault(Kind.TRUNCATE, turn=3, session=1)]
    return drive(tmp_path_factory.mktemp("whole") / RUN_ID, tuple(Lane), faults)


@pytest.fixture
def run(_whole: Run, tmp_path: Path) -> Run:
    """A run of all three lanes that passed, one sample of it on retry."""
    return _whole.copy(tmp_path / RUN_ID)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Makes a run of the v1 lane with these faults."""

    def make(*faults: Fault, samples: int = 2) -> Run:
        return drive(tmp_path / RUN_ID, [Lane.V1_OPENAI], faults, samples=samples)

    return make
