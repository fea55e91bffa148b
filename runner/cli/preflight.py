"""What is proven before the first lane begins: every session server generates, and the engine can what is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx

from runner.agents.session import ENGINE
from runner.base.errors import InfrastructureError
from runner.base.events import Emit, PhaseEvent
from runner.cli.ready import UNREACHABLE_SECONDS, prove_ready
from runner.lane.probe import Probe
from runner.oracle.tokens import Tokens
from runner.plan.model import PlannedLease
from runner.verdict.engine import EngineFacts, write_engine

CONNECT_SECONDS = 10.0

Preflight = Callable[[list[str]], Awaitable[None]]
"""Takes the base URLs of the session servers that will be driven; raises InfrastructureError."""


def preflight(lease: PlannedLease, artifacts: Path, urls: Mapping[str, str], emit: Emit) -> Preflight:
    """The preflight of one lease. What the engine says goes below `artifacts`, where it is among the `urls`."""

    async def run(bases: list[str]) -> None:
        known_up = None if lease.urls else UNREACHABLE_SECONDS
        await asyncio.gather(*(prove_ready(base, lease.ready_timeout, lease.family, emit, known_up) for base in bases))
        if ENGINE not in urls:
            return
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        async with httpx.AsyncClient(base_url=urls[ENGINE], timeout=timeout, trust_env=False) as http:
            facts = await Probe(http, Tokens.load(Path(lease.tokenizer))).run(lease.family)
        write_engine(artifacts, facts)
        emit(PhaseEvent(lease=lease.family, phase="probed", detail=facts.described, seconds=round(facts.seconds, 1)))
        require(facts)

    return run


def require(facts: EngineFacts) -> None:
    """Raises InfrastructureError that names the engine and every needed capability that it lacks."""
    lacking = facts.lacking
    if not lacking:
        return
    said = "; ".join(f"{capability.name} ({capability.seen})" for capability in lacking)
    raise InfrastructureError(
        f"the engine ({facts.named}) lacks {len(lacking)} of the capabilities that every lane needs: {said}",
        f"run an engine that has them, or start this one so that it does; leases/{facts.family}/engine.json has every"
        " answer",
    )
