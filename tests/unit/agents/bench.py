"""A session server over the scripted engine, in this process: what an agent meets, without a container."""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import structlog

from runner.agents.anthropic import AnthropicAgent
from runner.agents.openai import OpenAIAgent
from runner.agents.records import Health, SessionView, read
from runner.agents.session import SessionClient
from runner.agents.transcript import Transcript
from runner.agents.turns import Attempt, DriveSettings
from runner.base.events import Event
from runner.base.terms import CellId, Lane, Role, WireFormat
from runner.plan.model import FailureMode, Limits, Matcher, PlannedCell, PlannedSample, SystemExpectation
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "images" / "engine-cpu" / "models" / "qwen3"
SERVER = ROOT / "images" / "session-server"
if str(SERVER) not in sys.path:
    sys.path.insert(0, str(SERVER))

from session_server.app.build import build as build_server  # noqa: E402
from session_server.engine.pool import Answer  # noqa: E402
from session_server.settings import CoreVersion, Settings  # noqa: E402
from session_server.tito.loading import load_codec  # noqa: E402

logging.getLogger("httpx").setLevel(logging.WARNING)
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
SEED = 7


def server_app(
    version: str = "v1",
    engine_url: str = "http://engine",
    engine: ScriptedEngine | None = None,
    *,
    instance_id: str = "",
) -> object:
    """The session server; with `engine` it talks to that in memory, else over HTTP to `engine_url`."""
    settings = Settings(
        engine_url=engine_url,
        core_version=CoreVersion(version),
        tokenizer_path=MODEL,
        tito_model="qwen3",
        instance_id=instance_id or f"test-{version}",
    )
    transport = InMemory(engine) if engine is not None else None
    return build_server(settings, load_codec(settings), transport=transport)


def view_of(snapshot: dict[str, Any], alter: Callable[[dict[str, Any]], object] | None = None) -> SessionView:
    """What `GET /sessions/{id}` showed, read as the contract says; changed by `alter` in a copy, where given."""
    if alter is not None:
        snapshot = copy.deepcopy(snapshot)
        alter(snapshot)
    return read(SessionView, orjson.dumps(snapshot), "records", "snapshot")


class InMemory:
    """What carries the server's requests to an engine in this process."""

    def __init__(self, engine: ScriptedEngine) -> None:
        transport = httpx.ASGITransport(app=build_engine(engine))
        self._http = httpx.AsyncClient(transport=transport, base_url="http://engine")

    async def send(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        content: Sequence[bytes],
        *,
        timeout_seconds: float,
    ) -> Answer:
        """One exchange."""
        response = await self._http.request(method, path, headers=list(headers), content=b"".join(content))
        return Answer(response.status_code, dict(response.headers), response.content)

    async def aclose(self) -> None:
        """Nothing is held."""


def planned_cell(
    lane: Lane = Lane.V1_OPENAI,
    *,
    samples: int = 1,
    cycles: int = 2,
    roles: Sequence[Role] = tuple(Role),
    failure_mode: FailureMode = FailureMode.APPEND_TOOL,
    turn_timeout: float = 30.0,
) -> PlannedCell:
    """A qwen3 cell whose samples take turns between the wire modes."""
    anthropic = lane.wire is WireFormat.ANTHROPIC
    return PlannedCell(
        family="qwen3",
        lane=lane,
        scenario="baseline",
        samples=[PlannedSample(index=index, seed=SEED + index, stream=index % 2 == 0) for index in range(samples)],
        cycles=cycles,
        append_roles=list(roles),
        failure_mode=failure_mode,
        turn_timeout=turn_timeout,
        message_matcher=Matcher.LOOSE_TOOL_CALL if anthropic else Matcher.STRICT,
        intermediate_system=SystemExpectation.REQUIRED if anthropic else None,
        limits=Limits(soft=1.0 if anthropic else 0.25),
        required_events=[] if anthropic else ["rollback"],
        required_once=[] if anthropic else ["append_tool"],
    )


@dataclass
class Bench:
    """One engine, one server, one client."""

    engine: ScriptedEngine
    client: SessionClient
    events: list[Event] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    def agent(
        self,
        *,
        stream: bool = True,
        cycles: int = 2,
        roles: Sequence[Role] = tuple(Role),
        failure_mode: FailureMode = FailureMode.APPEND_TOOL,
        turn_timeout: float = 30.0,
    ) -> tuple[OpenAIAgent, Transcript]:
        """An agent for a session that is still to be opened."""
        transcript = Transcript(WireFormat.OPENAI, stream, SEED)
        settings = DriveSettings(
            cell=CellId("qwen3", Lane.V1_OPENAI),
            sample=0,
            seed=SEED,
            stream=stream,
            model="scripted",
            cycles=cycles,
            append_roles=tuple(roles),
            failure_mode=failure_mode,
            intermediate_system=None,
            temperature=0.7,
            max_tokens=256,
            turn_timeout=turn_timeout,
        )
        return OpenAIAgent(self.client, settings, transcript, self.events.append, self.attempts.append), transcript

    def anthropic(
        self,
        health: Health,
        *,
        stream: bool = False,
        roles: Sequence[Role] = tuple(Role),
        expected: SystemExpectation | None = SystemExpectation.REQUIRED,
    ) -> tuple[AnthropicAgent, Transcript]:
        """An Anthropic agent for a session that is still to be opened."""
        transcript = Transcript(WireFormat.ANTHROPIC, stream, SEED)
        cell = planned_cell(Lane.V2_ANTHROPIC, roles=roles).model_copy(update={"intermediate_system": expected})
        settings = DriveSettings.of(cell, PlannedSample(index=0, seed=SEED, stream=stream), "scripted")
        reports = transcript, self.events.append, self.attempts.append
        return AnthropicAgent(self.client, health, settings, *reports), transcript

    async def drive_anthropic(self, **options: object) -> tuple[Transcript, SessionView]:
        """Drive a whole Anthropic session and read it back."""
        agent, transcript = self.anthropic(await self.client.health(), **options)  # type: ignore[arg-type]
        transcript.session_id = await self.client.create()
        await agent.drive()
        raw = await self.client.get(transcript.session_id)
        return transcript, read(SessionView, raw, "records", "snapshot")

    async def drive(self, **options: object) -> tuple[Transcript, SessionView]:
        """Drive a whole session and read it back."""
        agent, transcript = self.agent(**options)  # type: ignore[arg-type]
        transcript.session_id = await self.client.create()
        await agent.drive()
        raw = await self.client.get(transcript.session_id)
        return transcript, read(SessionView, raw, "records", "snapshot")


@contextmanager
def bench(version: str = "v1", faults: Sequence[Fault] = ()) -> Iterator[Bench]:
    """Everything in memory. The client is not closed: it holds no socket."""
    engine = ScriptedEngine(MODEL, faults)
    app = server_app(version, engine=engine)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://session")  # type: ignore[arg-type]
    yield Bench(engine, SessionClient(http, f"session-{version}"))
