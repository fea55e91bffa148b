"""The proof that a session server is ready: an engine that generated a token through it, asked here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
import orjson
import tenacity

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, PhaseEvent

_PROBE_SECONDS = 40.0
"""One probe: the session server itself gives the engine 30 s for its token."""

_CONNECT_SECONDS = 10.0
_WAIT_SECONDS = 1.0
UNREACHABLE_SECONDS = 45.0
"""For a server that is up, which its own health check has said: so long is its network given to carry a connection."""

_NO_ROUTE = (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.NOT_IMPLEMENTED)
_QUESTION = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "temperature": 0}


@dataclass
class _Last:
    """The last attempt, in words, and when the server was last known to be there."""

    said: str
    there: float


async def prove_ready(base: str, budget: float, lease: str, emit: Emit, unreachable: float | None = None) -> None:
    """Return when the engine has generated a token through the session server at `base`.

    `GET /ready` says so where the server has that route; else one completion in a session of its own, which is removed
    again. A probe from inside the server's own container could not see a network that does not work.

    Raises InfrastructureError after `budget` seconds, or after `unreachable` seconds in which not even a connection
    came about: for a server that is known to be up, waiting for its network is no use. It says whether the server could
    not be reached, kept silent, or answered and what.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time()
    last = _Last("was not asked", begin)

    async def probe(http: httpx.AsyncClient) -> bool:
        try:
            good, said = await _probe(http, base)
            last.said, last.there = f"answers, and its engine generated nothing: {said}", loop.time()
        except httpx.ReadTimeout:
            good = False
            last.said, last.there = f"takes requests and is silent for {_PROBE_SECONDS:.0f} s", loop.time()
        except httpx.TransportError as error:
            good, last.said = False, f"cannot be reached from here: {type(error).__name__}: {error}"
        return good

    def given_up(_: tenacity.RetryCallState) -> bool:
        now = loop.time()
        return now - begin >= budget or (unreachable is not None and now - last.there >= unreachable)

    waiting = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda good: not good),
        stop=given_up,
        wait=tenacity.wait_fixed(_WAIT_SECONDS),
    )
    async with httpx.AsyncClient(
        timeout=httpx.Timeout(_PROBE_SECONDS, connect=_CONNECT_SECONDS), trust_env=False
    ) as http:
        try:
            await waiting(probe, http)
        except tenacity.RetryError:
            raise InfrastructureError(
                f"{base} proved no generation within {loop.time() - begin:.0f} s: it {last.said}",
                "look at the logs of engine and session server, or give it longer with READY_TIMEOUT=<seconds>",
            ) from None
    seconds = round(loop.time() - begin, 1)
    emit(PhaseEvent(lease=lease, phase="ready", detail=f"{base} generated a token", seconds=seconds))


async def _probe(http: httpx.AsyncClient, base: str) -> tuple[bool, str]:
    """One attempt: whether a token was generated, and what was answered."""
    reply = await http.get(f"{base}/ready")
    if reply.status_code not in _NO_ROUTE:
        return reply.status_code == httpx.codes.OK, f"{reply.status_code} to /ready: {reply.text[:300]}"
    created = await http.post(f"{base}/sessions", json={})
    session = _session_id(created)
    if not session:
        return False, f"{created.status_code} to POST /sessions: {created.text[:300]}"
    try:
        reply = await http.post(f"{base}/sessions/{session}/v1/chat/completions", json=_QUESTION)
    finally:
        await http.delete(f"{base}/sessions/{session}")
    return reply.status_code == httpx.codes.OK, f"{reply.status_code} to a completion: {reply.text[:300]}"


def _session_id(reply: httpx.Response) -> str:
    """The id in the answer to POST /sessions, or empty where the answer is another one."""
    try:
        body = orjson.loads(reply.content)
    except orjson.JSONDecodeError:
        return ""
    session = body.get("session_id") if isinstance(body, dict) else None
    return session if isinstance(session, str) else ""
