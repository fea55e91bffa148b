"""A row of the matrix in this process: session servers of a family over the scripted engine that speaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner.base.settings import EngineKind, Settings
from runner.base.terms import Lane
from runner.lane.snapshot import SessionFile, session_path
from runner.lane.verify import verify
from runner.ledger.paths import cell_ledger
from runner.ledger.reader import read_ledger
from runner.ledger.records import Finding, SampleRecord, Severity
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan, PlannedCell
from runner.verdict.gate import decide
from runner.verdict.model import Verdict
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.checkpoints import write
from tests.scripted_engine.dialects import DIALECTS
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault
from tests.scripted_engine.serving import served
from tests.unit.agents import bench as _bench  # puts the session server on the path

from session_server.app.build import build as build_server  # isort: skip
from session_server.settings import CoreVersion  # isort: skip
from session_server.settings import Settings as ServerSettings  # isort: skip
from session_server.tito.codec import Codec  # isort: skip
from session_server.tito.loading import load_codec  # isort: skip

SEED = _bench.SEED
FAMILIES = tuple(DIALECTS)
Spoil = Callable[[Codec], object]
"""Puts a fault into a session server's codec."""


def row(family: str, lanes: Sequence[Lane] = tuple(Lane), *, samples: int = 1, cycles: int = 1) -> Plan:
    """The plan of one family, as ENGINE=scripted makes it from the families file."""
    settings = Settings(
        engine=EngineKind.SCRIPTED,
        family=(family,),
        lanes=tuple(lanes),
        samples=samples,
        cycles=cycles,
        seed=SEED,
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return build_plan(settings, load_families(), run_id="20260101-000000-abc123", now=now, versions={})


def codec(
    family: str, model: Path, version: str = "v2", engine_url: str = "http://engine"
) -> tuple[ServerSettings, Codec]:
    """A session server's settings and codec for the family's model directory."""
    settings = ServerSettings(
        engine_url=engine_url,
        core_version=CoreVersion(version),
        tokenizer_path=model,
        tito_model=family,
        instance_id=f"test-{version}",
    )
    return settings, load_codec(settings)


@contextmanager
def environment(
    family: str, model: Path, *, faults: Sequence[Fault] = (), spoil: Spoil | None = None
) -> Iterator[dict[str, str]]:
    """Engine and both session servers on real sockets; service -> URL. `spoil` is done to both servers' codecs."""
    engine = ScriptedEngine(model, faults)
    with ExitStack() as stack:
        urls = {"engine": stack.enter_context(served(build_engine(engine)))}
        for version in ("v1", "v2"):
            settings, made = codec(family, model, version, urls["engine"])
            if spoil is not None:
                spoil(made)
            urls[f"session-{version}"] = stack.enter_context(served(build_server(settings, made)))
        yield urls


@dataclass
class Driven:
    """What one row left behind."""

    plan: Plan
    artifacts: Path
    verdict: Verdict

    def outcomes(self) -> dict[str, str]:
        """Lane -> outcome."""
        return {cell.cell.split("/")[1]: cell.outcome.value for cell in self.verdict.cells}

    def findings(self, lane: Lane, severity: Severity) -> list[Finding]:
        """Findings of that severity in all samples of a lane."""
        cell = self.cell(lane)
        records = read_ledger(cell_ledger(self.artifacts, cell.id)).records
        samples = [record for record in records if isinstance(record, SampleRecord)]
        return [finding for sample in samples for finding in sample.findings if finding.severity is severity]

    def cell(self, lane: Lane) -> PlannedCell:
        """The planned cell of a lane."""
        return next(cell for cell in self.plan.cells if cell.lane is lane)

    def session(self, lane: Lane) -> SessionFile:
        """The evidence of its first sample."""
        return SessionFile.load(session_path(self.artifacts, self.cell(lane).id, 0))


def drive(
    family: str,
    model: Path,
    artifacts: Path,
    *,
    lanes: Sequence[Lane] = tuple(Lane),
    faults: Sequence[Fault] = (),
    spoil: Spoil | None = None,
) -> Driven:
    """Verify one row and judge it."""
    plan = row(family, lanes)
    with environment(family, model, faults=faults, spoil=spoil) as urls:
        asyncio.run(verify(plan, family, artifacts, urls, lambda event: None, models_dir=model))
    ledgers = {
        str(cell.id): [read_ledger(path)] if (path := cell_ledger(artifacts, cell.id)).is_file() else []
        for cell in plan.cells
    }
    return Driven(plan, artifacts, decide(plan, ledgers))


def model_of(family: str, root: Path) -> Path:
    """The family's model directory, made once."""
    place = root / family
    return place if (place / "tokenizer.json").is_file() else write(family, place)
