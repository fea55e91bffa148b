"""A small run whose ledgers tests damage in one way each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runner.base.settings import Settings
from runner.base.terms import Lane
from runner.ledger.reader import Ledger, parse_ledger
from runner.ledger.records import (
    AttemptRecord,
    Body,
    ErrorBody,
    FaultRecord,
    Finding,
    Header,
    InfraRecord,
    RecreatedRecord,
    SampleRecord,
    Severity,
    TokenDiff,
    Trailer,
    VerificationErrorRecord,
)
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan, PlannedCell
from runner.verdict.engine import Capability, EngineFacts, write_engine
from runner.verdict.gate import decide
from runner.verdict.model import CellVerdict, Verdict

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_plan(built: frozenset[Lane] = frozenset(Lane), **settings: object) -> Plan:
    """A plan of the run `run`."""
    return build_plan(
        Settings.model_validate(settings), load_families(), run_id="run", now=NOW, versions={}, built=built
    )


def engine_facts(family: str) -> EngineFacts:
    """What an engine that can everything said of itself."""
    return EngineFacts(
        family=family,
        version="0.5.23",
        model="m",
        asked_at=NOW,
        seconds=1.0,
        capabilities=[Capability(name="scoring", needed=True, available=True, seen="200")],
        determinism=None,
    )


def ledger_bytes(cell: str, records: list[Body], *, run: str = "run", trailer: bool = True) -> bytes:
    """A ledger as its writer would have left it."""
    header = Header(run=run, cell=cell, writer="test", started_at=NOW)
    timed = [
        record if record.at else record.model_copy(update={"at": NOW + timedelta(seconds=number)})
        for number, record in enumerate(records, start=1)
    ]
    body = b"".join(record.model_dump_json().encode() + b"\n" for record in [header, *timed])
    if not trailer:
        return body
    ended = max([NOW, *(record.at for record in timed if record.at)]) + timedelta(seconds=1)
    last = Trailer(records=len(records) + 1, sha256=hashlib.sha256(body).hexdigest(), ended_at=ended)
    return body + last.model_dump_json().encode() + b"\n"


@dataclass
class World:
    """A plan and the records of each of its ledgers; every sample is clean unless a test changes it."""

    plan: Plan
    records: dict[str, list[Body]] = field(default_factory=dict)
    data: dict[str, bytes] = field(default_factory=dict)
    """Ledgers whose bytes are given, instead of those made of `records`."""

    def __post_init__(self) -> None:
        for cell in self.plan.cells:
            if cell.applicable:
                self.records[str(cell.id)] = [self.sample(cell, s.index) for s in cell.samples]

    def sample(self, cell: PlannedCell, index: int, **changes: object) -> SampleRecord:
        """A clean sample record, with changes."""
        planned = cell.samples[index] if index < len(cell.samples) else cell.samples[0]
        values: dict[str, object] = {
            "sample_index": index,
            "driver_events": [*cell.required_events, *cell.required_once],
            "had_assistant_mismatch": False,
            "total_mismatches": 0,
            "assistant_mismatch_count": 0,
            "hard_mismatch_count": 0,
            "hard_mismatch_types": [],
            "turns": 15,
            "seconds": 2.5,
            "prompt_tokens": 4000,
            "completion_tokens": 400,
            "seed": planned.seed,
            "stream": planned.stream,
            "worker": planned.worker,
            "session_id": f"session-{index}",
        }
        return SampleRecord.model_validate(values | changes)

    @property
    def cell(self) -> PlannedCell:
        """The first cell."""
        return self.plan.cells[0]

    @property
    def key(self) -> str:
        """The first cell's key."""
        return str(self.cell.id)

    def kill(self, key: str) -> None:
        """The writer of this ledger was killed before it wrote its trailer."""
        self.data[key] = ledger_bytes(key, self.records[key], trailer=False)

    def bytes_of(self, key: str) -> bytes:
        """The ledger of this key as it stands."""
        return self.data.get(key) or ledger_bytes(key, self.records[key])

    def ledgers(self) -> dict[str, list[Ledger]]:
        """What a reader makes of all ledgers."""
        keys = dict.fromkeys([*self.records, *self.data])
        return {key: [parse_ledger(self.bytes_of(key), path=key)] for key in keys}

    def verdict(self) -> Verdict:
        """The verdict as things stand."""
        return decide(self.plan, self.ledgers())

    def judged(self) -> CellVerdict:
        """The verdict on the first cell."""
        return self.verdict().cells[0]

    def infra(self, *, index: int | None = None, service: str = "engine") -> InfraRecord:
        """Something broke."""
        return InfraRecord(
            sample_index=index, service=service, message="it ended", exit_code=137, log_tail=["last words"]
        )

    def break_lease(self) -> None:
        """The host saw the engine of the first cell's lease die."""
        self.records[f"lease:{self.cell.family}"] = [self.infra()]

    def recreate(self, *cells: str, after: float | None = None) -> None:
        """The engine of the first cell's lease died, and the lease was created again for these cells."""
        record = RecreatedRecord(
            at=None if after is None else NOW + timedelta(seconds=after),
            service="engine",
            message="it ended",
            exit_code=137,
            log_tail=["last words"],
            cells=list(cells),
            kept=f"leases/{self.cell.family}/try-1",
        )
        self.records.setdefault(f"lease:{self.cell.family}", []).append(record)

    def error(self, index: int | None, *, model: bool = False, stage: str = "prefix") -> VerificationErrorRecord:
        """A check failed."""
        body = ErrorBody(stage=stage, type="VerificationError", message="token 5 differs")
        return VerificationErrorRecord(sample_index=index, verification_error=body, model_incomplete=model)

    def hard(self, index: int) -> SampleRecord:
        """A sample with a hard mismatch."""
        return self.sample(
            self.cell,
            index,
            hard_mismatch_count=1,
            hard_mismatch_types=["non_assistant_text"],
            total_mismatches=1,
            findings=[self.finding(Severity.HARD, "non_assistant_text")],
        )

    def finding(self, severity: Severity, kind: str) -> Finding:
        """A finding with a token diff."""
        diff = TokenDiff(
            token_index=7,
            expected_id=198,
            actual_id=11,
            expected_ids=[5, 198, 6],
            actual_ids=[5, 11, 6],
            expected_text="a\n",
            actual_text="a,",
        )
        return Finding(
            check="rerender",
            type=kind,
            severity=severity,
            message="the newline is lost",
            turn=3,
            role="tool",
            diff=diff,
        )

    def attempt(self, index: int, cause: str = "length") -> AttemptRecord:
        """A request that was made again."""
        return AttemptRecord(sample_index=index, turn=1, attempt=1, cause=cause)

    def fault(self) -> FaultRecord:
        """A fault put in on purpose."""
        return FaultRecord(name="drop-newline", detail="turn 3")

    def save(self, run: Path) -> None:
        """Write plan and ledgers as the artifacts of a run."""
        run.mkdir(parents=True, exist_ok=True)
        (run / "plan.json").write_text(self.plan.model_dump_json(), encoding="utf-8")
        for key in dict.fromkeys([*self.records, *self.data]):
            lease = key.removeprefix("lease:")
            path = run / ("cells" if lease == key else "leases") / lease / "ledger.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.bytes_of(key))
        for planned in self.plan.leases:
            write_engine(run, engine_facts(planned.family))


MakeWorld = Callable[..., World]


@pytest.fixture
def make_world() -> MakeWorld:
    """Makes a clean run of the given settings."""

    def make(built: frozenset[Lane] = frozenset(Lane), **settings: object) -> World:
        return World(make_plan(built, **({"samples": 2} | settings)))

    return make


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """One cell, qwen3/v1-openai/baseline, with two samples."""
    return make_world(lanes="v1-openai")


@pytest.fixture
def three(make_world: MakeWorld) -> World:
    """All three lanes of qwen3."""
    return make_world()
