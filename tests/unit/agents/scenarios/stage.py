"""A scenario driven in this process as the plan says, and judged: what its cell would have in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson
import pytest

from runner.agents.records import SessionView
from runner.agents.scenarios.drives import drive_of
from runner.agents.scenarios.scene import Scene
from runner.agents.transcript import Transcript
from runner.agents.turns import DriveSettings
from runner.base.settings import Settings
from runner.base.terms import Lane
from runner.oracle.finding import Finding, Severity
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import PlannedCell, PlannedSample
from tests.scripted_engine.faults import Fault
from tests.unit.agents.bench import MODEL, Bench, bench, view_of

from session_server.core import tree  # isort: skip
from session_server.core.turn import Message, Position  # isort: skip


@cache
def measure() -> Measure:
    """Tokenizer and canonical form of the micro model."""
    return Measure.load(MODEL, "qwen3")


def planned(scenario: str, lane: Lane) -> PlannedCell:
    """The cell as a run would plan it."""
    settings = Settings.model_validate({"cell": f"qwen3/{lane}/{scenario}"})
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return build_plan(settings, load_families(), run_id="run", now=now, versions={}).cells[0]


@dataclass(frozen=True)
class Driven:
    """One session as it lies on disk, with the requests that the engine was sent."""

    cell: PlannedCell
    transcript: Transcript
    snapshot: dict[str, Any]
    requests: list[dict[str, Any]]

    @property
    def view(self) -> SessionView:
        return view_of(self.snapshot)

    def judged(self, alter: Callable[[dict[str, Any]], object] | None = None) -> list[Finding]:
        """Judge the snapshot, altered by `alter` in a copy."""
        return judge(view_of(self.snapshot, alter), self.transcript, self.cell, measure())

    def hard(self, alter: Callable[[dict[str, Any]], object] | None = None) -> set[str]:
        """`check:type` of all hard findings."""
        return {f"{f.check}:{f.type}" for f in self.judged(alter) if f.severity is Severity.HARD}

    def soft(self) -> set[str]:
        """Types of the oracle's own soft findings."""
        return {f.type for f in self.judged() if f.severity is Severity.SOFT and f.check == "render"}

    def covered(self) -> bool:
        """Whether the gate would find every event that the plan asks for."""
        have = list(self.transcript.driver_events)
        return all(have.count(event) >= self.cell.required_events.count(event) for event in self.cell.required_events)


async def scene(b: Bench, cell: PlannedCell, sample: PlannedSample, transcript: Transcript) -> Scene:
    """What a script gets for this sample: its session is open."""
    transcript.session_id = await b.client.create()
    return Scene(
        client=b.client,
        health=await b.client.health(),
        settings=DriveSettings.of(cell, sample, "scripted"),
        transcript=transcript,
        emit=b.events.append,
        on_attempt=b.attempts.append,
        peers={cell.lane.service: b.client},
    )


def other_matching(monkeypatch: pytest.MonkeyPatch, same: Callable[[Message, Message, Any], bool]) -> None:
    """A tree that compares messages with `same(stored, replayed, matcher)`, each request from its beginning."""
    right = tree.Tree.position

    def position(self: tree.Tree, messages: Sequence[Message], matcher: Any, **known: Any) -> Position:
        return right(self, [dict(m) for m in messages], lambda a, b: same(a, b, matcher))

    monkeypatch.setattr(tree.Tree, "position", position)


def driven(scenario: str, lane: Lane, *, stream: bool = False, faults: Sequence[Fault] = ()) -> Driven:
    """Drive one sample of the scenario in this lane. Raises what the script raises."""
    cell = planned(scenario, lane)
    sample = cell.samples[0].model_copy(update={"stream": stream})
    transcript = Transcript(lane.wire, stream, sample.seed)

    with bench(lane.server, faults) as b:

        async def run() -> bytes:
            await drive_of(scenario, lane.wire)(await scene(b, cell, sample, transcript))
            return await b.client.get(transcript.session_id)

        snapshot = orjson.loads(asyncio.run(run()))
        return Driven(cell, transcript, snapshot, b.engine.requests)
