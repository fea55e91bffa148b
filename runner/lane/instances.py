"""Whether the server that answers is the worker that is meant: asked of `/health`, at both ends of every sample.

A stale server on a port that was taken over, or a worker that was replaced in mid-session, answers as well as the right
one, and its records are those of other sessions. What is seen here is infrastructure, never a failed check.
"""

from __future__ import annotations

from runner.agents.session import ServiceError
from runner.plan.workers import Worker


class Instances:
    """What each worker of a lease has called itself so far. One for all cells of the lease."""

    def __init__(self) -> None:
        self._seen: dict[str, str | None] = {}

    def check(self, service: str, worker: Worker, seen: str | None) -> None:
        """`worker` has just answered with the id `seen`; a server may well have none.

        Raises:
            ServiceError: it is not the expected one, not the one of before, or another worker of its service.
        """
        known = self._seen.setdefault(f"{service} {worker.name}", seen)
        if seen != known:
            raise ServiceError(
                worker.name,
                f"{worker.name} was instance {known!r} and is {seen!r} now: it was restarted or replaced, and the"
                " sessions that it held are gone",
            )
        if seen is None:
            return
        if worker.instance_id is not None and seen != worker.instance_id:
            raise ServiceError(
                worker.name,
                f"{worker.url} answers as instance {seen!r}, and {worker.name} was started as {worker.instance_id!r}:"
                " another server answers there",
            )
        others = [
            key.removeprefix(f"{service} ")
            for key, instance in self._seen.items()
            if key.startswith(f"{service} ") and instance == seen and key != f"{service} {worker.name}"
        ]
        if others:
            raise ServiceError(
                worker.name,
                f"{worker.name} and {others[0]} both answer as instance {seen!r}: they are one server, or cannot be"
                " told apart",
            )
