"""Wait until every service is up, and tell loading, crashed, silent and refusing apart.

A service is waited for as long as it runs and its budget lasts: an engine may load for minutes. It is given up at once
when Docker says that it ended. When the budget is over, its log says which it was: one that still writes was loading
wants more time, one that has not written for long hangs, and one whose health check got an answer is up and refuses.
What "ready" means is each service's own health check here; that the engine generates through the session server is
proven by the runner container from inside the network, where the turns will come from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from docker.models.containers import Container

from runner.base.events import Emit, PhaseEvent
from runner.stack.failure import StackError
from runner.stack.services import failure, log_tail, state

_POLL_SECONDS = 0.5
_SAY_SECONDS = 10.0
_QUIET_SECONDS = 60.0
"""Without a new line for so long, a service is called silent; engines report their loading far more often."""

_NOBODY = ("refused", "timed out", "timeout")
"""In what a health check says: nobody answers yet, which is what loading looks like."""


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
    voices: dict[str, _Voice] = {}
    while waiting:
        for name, container in list(waiting.items()):
            seen = state(name, container)
            voices.setdefault(name, _Voice(clock()))
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
            how = voices[name].hear(container, now).told(now, seen.health_said)
            raise StackError(
                failure(
                    seen, container, f"not ready after {timeout:.0f} s ({seen.status}, health {seen.health}): {how}"
                ),
                hint="give it longer with READY_TIMEOUT=<seconds>, or read its log in the artifacts",
            )
        if now - said >= _SAY_SECONDS:
            said = now
            for name, container in waiting.items():
                detail = f"{name} is loading{voices[name].hear(container, now).progress(now)}"
                emit(PhaseEvent(lease=lease, phase="starting", detail=detail, seconds=round(now - start, 1)))
        sleep(_POLL_SECONDS)


@dataclass
class _Voice:
    """What a service has written last, and since when it has written nothing else."""

    since: float
    last: str = ""

    def hear(self, container: Container, now: float) -> Self:
        last = next(reversed(log_tail(container, 3)), "").strip()
        if last != self.last:
            self.last, self.since = last, now
        return self

    def progress(self, now: float) -> str:
        silent = now - self.since
        quiet = f" (nothing new for {silent:.0f} s)" if silent >= _QUIET_SECONDS else ""
        return f": {self.last[:100]}{quiet}" if self.last else quiet

    def told(self, now: float, health_said: str) -> str:
        if health_said and not any(text in health_said for text in _NOBODY):
            return f"it is up and its health check fails: {health_said}"
        silent = now - self.since
        if silent >= _QUIET_SECONDS:
            return f"silent, its log has had nothing new for {silent:.0f} s"
        return f"still loading, {silent:.0f} s ago it wrote: {self.last[:200]}"
