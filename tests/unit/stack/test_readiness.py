"""Waiting for services: healthy, loading, crashed, killed for memory, restarted and silent are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from runner.base.events import Event, PhaseEvent
from runner.stack.failure import StackError
from runner.stack.readiness import wait_ready


class FakeContainer:
    """Gives one state per `reload`, the last one for ever."""

    id = "0123456789abcdef"

    def __init__(self, *states: Mapping[str, Any], log: bytes = b"", restarts: int = 0) -> None:
        self._states = list(states)
        self._log = log
        self._restarts = restarts
        self.attrs: dict[str, Any] = {}

    def reload(self) -> None:
        seen = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        self.attrs = {"State": dict(seen), "RestartCount": self._restarts}

    def logs(self, tail: int) -> bytes:
        return b"\n".join(self._log.splitlines()[-tail:])


LOADING = {"Status": "running", "Health": {"Status": "starting"}}
HEALTHY = {"Status": "running", "Health": {"Status": "healthy"}}


class Clock:
    """Time that only passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _wait(services: dict[str, FakeContainer], timeout: float = 60.0) -> list[Event]:
    events: list[Event] = []
    clock = Clock()
    wait_ready(
        services,  # type: ignore[arg-type]
        timeout=timeout,
        lease="qwen3",
        emit=events.append,
        clock=clock,
        sleep=clock.sleep,
    )
    return events


def test_it_returns_when_every_service_is_healthy_and_says_when_each_was() -> None:
    events = _wait({"engine": FakeContainer(LOADING, LOADING, HEALTHY), "session-v1": FakeContainer(HEALTHY)})
    ready = [(e.detail, e.seconds) for e in events if isinstance(e, PhaseEvent) and e.phase == "ready"]
    assert ready == [("session-v1", 0.0), ("engine", 1.0)]


def test_loading_is_waited_for_and_said_with_the_last_log_line() -> None:
    events = _wait({"engine": FakeContainer(*[LOADING] * 30, HEALTHY, log=b"first\nLoading weights 3/8\n")})
    said = [e.detail for e in events if isinstance(e, PhaseEvent) and e.phase == "starting"]
    assert said == ["engine is loading: Loading weights 3/8"]


def test_a_crash_ends_the_wait_at_once_with_code_and_log() -> None:
    crashed = {"Status": "exited", "ExitCode": 3, "OOMKilled": False, "Error": ""}
    with pytest.raises(StackError) as caught:
        _wait({"engine": FakeContainer(LOADING, crashed, log=b"ValueError: bad flag\n")})
    assert caught.value.failure.exit_code == 3
    assert "ended with exit code 3" in str(caught.value)
    assert "ValueError: bad flag" in str(caught.value)


def test_a_kill_for_memory_is_called_that() -> None:
    with pytest.raises(StackError, match="killed for memory"):
        _wait({"engine": FakeContainer({"Status": "exited", "ExitCode": 137, "OOMKilled": True})})


def test_a_restarting_service_is_not_waited_for() -> None:
    with pytest.raises(StackError, match="restarted 2 times"):
        _wait({"engine": FakeContainer(LOADING, restarts=2)})


class Writing(FakeContainer):
    """Writes another line each time somebody looks."""

    lines = 0

    def logs(self, tail: int) -> bytes:
        self.lines += 1
        return f"Loading weights {self.lines}/99".encode()


def _probed(said: str) -> dict[str, Any]:
    return {"Status": "running", "Health": {"Status": "unhealthy", "Log": [{"ExitCode": 1, "Output": said}]}}


REFUSED = _probed("bash: connect: Connection refused\n")


@pytest.mark.parametrize(
    ("container", "said"),
    [
        pytest.param(Writing(REFUSED), r"still loading, 0 s ago it wrote: Loading weights \d+/99", id="loading"),
        pytest.param(FakeContainer(LOADING), r"silent, its log has had nothing new for 12\d s", id="without a word"),
        pytest.param(
            FakeContainer(REFUSED, log=b"Capturing graphs"),
            r"silent, its log has had nothing new for 11\d s",
            id="silent after a while",
        ),
        pytest.param(
            FakeContainer(_probed("urllib.error.HTTPError: HTTP Error 503: Service Unavailable\n")),
            r"it is up and its health check fails: urllib.error.HTTPError: HTTP Error 503",
            id="refusing",
        ),
    ],
)
def test_what_is_not_ready_in_its_budget_is_told_as_what_it_was(container: FakeContainer, said: str) -> None:
    with pytest.raises(StackError, match=rf"not ready after 120 s \(running, health \w+\): {said}") as caught:
        _wait({"engine": container}, timeout=120)
    assert "READY_TIMEOUT" in str(caught.value)


def test_a_service_that_says_nothing_new_is_shown_as_that_while_it_is_waited_for() -> None:
    events = _wait({"engine": FakeContainer(*[LOADING] * 150, HEALTHY, log=b"Capturing graphs")}, timeout=100)
    said = [e.detail for e in events if isinstance(e, PhaseEvent) and e.phase == "starting"]
    assert said[0] == "engine is loading: Capturing graphs"
    assert said[-1] == "engine is loading: Capturing graphs (nothing new for 60 s)"


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"Status": "paused"}, "was paused"),
        ({"Status": "dead", "ExitCode": 139}, r"crashed \(SIGSEGV\)"),
        (
            {"Status": "exited", "ExitCode": 127, "Error": "exec: not found"},
            "ended with exit code 127: exec: not found",
        ),
    ],
)
def test_whatever_else_ends_the_wait_is_named(ended: dict[str, Any], said: str) -> None:
    with pytest.raises(StackError, match=said):
        _wait({"engine": FakeContainer(LOADING, ended)})
