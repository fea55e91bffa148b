"""Where one sample is driven: at which worker, through which clients, and that it is still the same server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.agents.records import Health
from runner.agents.session import SessionClient
from runner.plan.workers import Worker


@dataclass(frozen=True)
class Seat:
    """A worker of a cell's service.

    `peers` are clients by service, for scripts that talk to more than one: each service's worker of this number.
    `same` takes the id that `/health` gave and raises ServiceError where it is not this worker's.
    """

    worker: Worker
    client: SessionClient
    peers: Mapping[str, SessionClient]
    same: Callable[[str | None], None]

    async def health(self) -> Health:
        """`GET /health` of this worker. Raises ServiceError where it does not answer, or another server does."""
        health = await self.client.health()
        self.same(health.session_server_instance_id)
        return health
