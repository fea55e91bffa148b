"""Driven sessions to judge: from the session server over the scripted engine, and copies that were altered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from runner.agents.anthropic import AnthropicAgent
from runner.agents.openai import OpenAIAgent
from runner.agents.records import SessionView
from runner.agents.transcript import TRANSCRIPT_ADAPTER, Transcript
from runner.base.terms import Lane, WireFormat
from runner.oracle.finding import Finding
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.oracle.tokens import Tokens
from runner.plan.model import PlannedCell
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import MODEL, bench, planned_cell, view_of


@dataclass(frozen=True)
class Case:
    """One session as it lies on disk: the server's snapshot, the agent's transcript, and the cell it belongs to."""

    snapshot: dict[str, Any]
    transcript: Transcript
    cell: PlannedCell
    measure: Measure

    @property
    def tokens(self) -> Tokens:
        return self.measure.tokens

    @property
    def view(self) -> SessionView:
        """The snapshot as it is."""
        return view_of(self.snapshot)

    def judged(self, alter: Callable[[dict[str, Any]], object] | None = None) -> list[Finding]:
        """Judge the snapshot, altered by `alter` in a copy."""
        return judge(view_of(self.snapshot, alter), self.transcript, self.cell, self.measure)

    def types(self, alter: Callable[[dict[str, Any]], object] | None = None) -> set[str]:
        """`check:type` of all findings."""
        return {f"{finding.check}:{finding.type}" for finding in self.judged(alter)}

    def with_transcript(self, alter: Callable[[dict[str, Any]], object]) -> Case:
        """The same with an altered transcript."""
        body = TRANSCRIPT_ADAPTER.dump_python(self.transcript, mode="json")
        alter(body)
        return Case(self.snapshot, TRANSCRIPT_ADAPTER.validate_python(body), self.cell, self.measure)


@pytest.fixture(scope="session")
def measure() -> Measure:
    """Tokenizer and canonical form of the micro model."""
    return Measure.load(MODEL, "qwen3")


@pytest.fixture(scope="session")
def tokens(measure: Measure) -> Tokens:
    """The tokenizer alone."""
    return measure.tokens


def driven(lane: Lane, measure: Measure, stream: bool, faults: list[Fault]) -> Case:
    """Drive one session for real."""
    with bench(lane.server, faults) as b:

        async def run() -> tuple[dict[str, Any], Transcript]:
            agent: OpenAIAgent | AnthropicAgent
            if lane.wire is WireFormat.OPENAI:
                agent, transcript = b.agent(stream=stream)
            else:
                agent, transcript = b.anthropic(await b.client.health(), stream=stream)
            transcript.session_id = await b.client.create()
            await agent.drive()
            return orjson.loads(await b.client.get(transcript.session_id)), transcript

        snapshot, transcript = asyncio.run(run())
    return Case(snapshot, transcript, planned_cell(lane), measure)


@pytest.fixture(scope="session")
def session(measure: Measure) -> Case:
    """A clean v1 session, not streamed, so that the client saw ids as well; one truncated reply on the way."""
    return driven(Lane.V1_OPENAI, measure, stream=False, faults=[Fault(Kind.TRUNCATE, turn=4)])


@pytest.fixture(scope="session")
def streamed(measure: Measure) -> Case:
    """A clean v1 session, streamed."""
    return driven(Lane.V1_OPENAI, measure, stream=True, faults=[])


@pytest.fixture(scope="session")
def grown(measure: Measure) -> Case:
    """A clean v2 session with one truncated reply on the way."""
    return driven(Lane.V2_OPENAI, measure, stream=True, faults=[Fault(Kind.TRUNCATE, turn=4)])


@pytest.fixture(scope="session")
def messages(measure: Measure) -> Case:
    """An Anthropic session with one reply that was not the forced call."""
    return driven(Lane.V2_ANTHROPIC, measure, stream=False, faults=[Fault(Kind.NO_CALL, turn=3)])
