"""Wait until every service is up, and tell loading, crashed and silent apart.

A service is waited for as long as it runs and its budget lasts: an engine may load for minutes. It is given up at once
when Docker says that it ended. What "ready" means is each service's own health check here; that the engine generates
through the session server is proven by the runner container from inside the network, where the turns will come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from docker.models.containers import Container

from runner.base.events import Emit, PhaseEvent
from runner.stack.failure import StackError
from runner.stack.services import failure, log_tail, state

_POLL_SECONDS = 0.5
_SAY_SECONDS = 10.0


def wait_ready(
    services: Mapping[str, Container],
    *,
    timeout: float,
    lease: str,
    emit: Emit,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when all of `services` are healthy. `timeout` in seconds, for all together.

    Raises StackError when one of them ended, restarted, or the budget is over; the error has its log's end.
    """
    start = clock()
    said = start
    waiting = dict(services)
    while waiting:
        for name, container in list(waiting.items()):
            seen = state(name, container)
            if seen.ended:
                raise StackError(failure(seen, container, f"did not start: {seen.ending}"))
            if seen.trouble:
                raise StackError(failure(seen, container, f"while it was starting: {seen.trouble}"))
            if seen.health == "healthy":
                emit(PhaseEvent(lease=lease, phase="ready", detail=name, seconds=round(clock() - start, 1)))
                del waiting[name]
        if not waiting:
            return
        now = clock()
        if now - start > timeout:
            name, container = next(iter(waiting.items()))
            seen = state(name, container)
            raise StackError(
                failure(
                    seen, container, f"not ready after {timeout:.0f} s (status {seen.status}, health {seen.health})"
                ),
                hint="give it longer with READY_TIMEOUT=<seconds>, or read its log in the artifacts",
            )
        if now - said >= _SAY_SECONDS:
            said = now
            for name, container in waiting.items():
                last = next(reversed(log_tail(container, 3)), "")
                detail = f"{name} is loading: {last.strip()[:100]}" if last.strip() else f"{name} is loading"
                emit(PhaseEvent(lease=lease, phase="starting", detail=detail, seconds=round(now - start, 1)))
        sleep(_POLL_SECONDS)
