"""`verify`: what the runner container does. Events are JSON lines on stdout; the host shows them live."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import httpx
import tenacity

from runner.base.errors import InfrastructureError
from runner.base.events import Event, PhaseEvent, to_line
from runner.base.terms import ExitCode
from runner.lane.verify import verify as drive
from runner.verdict.artifacts import load_plan

_PROBE_SECONDS = 40.0
"""One probe: the session server itself gives the engine 30 s for its token."""

_WAIT_SECONDS = 1.0


def emit(event: Event) -> None:
    """One event, one line; flushed, because the host shows it live."""
    print(to_line(event), flush=True)


def verify(plan_path: Path, family: str, artifacts: Path, urls: Mapping[str, str]) -> ExitCode:
    """Drive the lease of `family` and write its evidence below `artifacts`."""
    plan = load_plan(plan_path.parent)
    ready_timeout = next((lease.ready_timeout for lease in plan.leases if lease.family == family), 0.0)

    async def preflight(bases: list[str]) -> None:
        await asyncio.gather(*(prove_ready(base, ready_timeout, family) for base in bases))

    return asyncio.run(drive(plan, family, artifacts, urls, emit, preflight=preflight))


async def prove_ready(base: str, budget: float, lease: str) -> None:
    """Return when `GET {base}/ready` says that the engine generated a token through this session server.

    Asked from here because the turns come from here: a probe inside the server's own container cannot see a network
    that does not work. Raises InfrastructureError after `budget` seconds, with the last answer.
    """
    last = "no answer"

    async def probe(http: httpx.AsyncClient) -> bool:
        nonlocal last
        try:
            reply = await http.get(f"{base}/ready")
        except httpx.TransportError as error:
            last = f"{type(error).__name__}: {error}"
            return False
        last = f"{reply.status_code}: {reply.text[:300]}"
        return reply.status_code == httpx.codes.OK

    waiting = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda good: not good),
        stop=tenacity.stop_after_delay(budget),
        wait=tenacity.wait_fixed(_WAIT_SECONDS),
    )
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with httpx.AsyncClient(timeout=_PROBE_SECONDS) as http:
        try:
            await waiting(probe, http)
        except tenacity.RetryError:
            raise InfrastructureError(
                f"{base} proved no generation within {budget:.0f} s; its last answer to /ready was {last}",
                "look at the engine's log in the artifacts, or give it longer with READY_TIMEOUT=<seconds>",
            ) from None
    seconds = round(loop.time() - begin, 1)
    emit(PhaseEvent(lease=lease, phase="ready", detail=f"{base} generated a token", seconds=seconds))
