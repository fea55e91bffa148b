"""When nothing advances any more: what is silent, asked of the session servers themselves.

A session server that does not answer, or whose engine generates nothing, is infrastructure: the environment went away
under the turn that is waited for. Where both still work, the wait itself is the finding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from runner.agents.records import excerpt
from runner.agents.session import ENGINE, ServiceError, SessionClient

HEALTH_SECONDS = 5.0
READY_SECONDS = 35.0
"""A session server gives its engine 30 s for the token that `/ready` asks for."""

_NO_ROUTE = (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.NOT_IMPLEMENTED)


async def why_silent(clients: Sequence[SessionClient]) -> ServiceError | None:
    """The first of these servers, or its engine, that does not work now; None where all of them do."""
    found = await asyncio.gather(*(_ask(client) for client in clients))
    return next((error for error in found if error is not None), None)


async def _ask(client: SessionClient) -> ServiceError | None:
    for path, seconds in (("/health", HEALTH_SECONDS), ("/ready", READY_SECONDS)):
        try:
            async with asyncio.timeout(seconds):
                status, body = await client.ask(path)
        except TimeoutError:
            return ServiceError(client.service, f"{client.service} did not answer {path} within {seconds:g} s")
        except httpx.TransportError as error:
            said = f"{client.service} cannot be reached ({path}: {type(error).__name__}: {error})"
            return ServiceError(client.service, said)
        if path == "/ready" and status in _NO_ROUTE:
            return None
        if status != httpx.codes.OK:
            blamed = ENGINE if path == "/ready" else client.service
            return ServiceError(blamed, f"{client.service} answers {status} to {path}: {excerpt(body)}")
    return None
