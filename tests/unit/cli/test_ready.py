"""Whether a session server is ready is asked from where its turns will come; what it is instead is told apart."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from runner.base.errors import InfrastructureError
from runner.base.events import Event, PhaseEvent
from runner.cli import ready
from runner.cli.ready import prove_ready
from tests.scripted_engine.serving import served


def _prove(base: str, budget: float, unreachable: float | None = None) -> list[Event]:
    events: list[Event] = []
    asyncio.run(prove_ready(base, budget, "qwen3", events.append, unreachable))
    return events


def _app(*answers: tuple[int, str]) -> Starlette:
    """Answers /ready one after the other, the last for ever."""
    left = list(answers)

    async def answer(request: Any) -> JSONResponse:
        status, reason = left.pop(0) if len(left) > 1 else left[0]
        return JSONResponse({"reason": reason}, status_code=status)

    return Starlette(routes=[Route("/ready", answer)])


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_WAIT_SECONDS", 0.05)


def test_loading_is_waited_for() -> None:
    with served(_app((503, "the engine is loading"), (503, "the engine is loading"), (200, ""))) as base:
        (event,) = _prove(base, 10.0)
    assert isinstance(event, PhaseEvent)
    assert event.detail == f"{base} generated a token"


def test_a_server_whose_engine_does_not_generate_is_told_with_its_answer() -> None:
    with served(_app((503, "the engine gives no token"))) as base, pytest.raises(InfrastructureError) as caught:
        _prove(base, 0.5)
    assert "answers, and its engine generated nothing: 503 to /ready" in caught.value.message
    assert "the engine gives no token" in caught.value.message
    assert "READY_TIMEOUT" in caught.value.hint


def test_a_server_that_takes_connections_and_says_nothing_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_PROBE_SECONDS", 0.3)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(InfrastructureError, match="takes requests and is silent"):
            _prove(f"http://127.0.0.1:{listener.getsockname()[1]}", 0.5)


@pytest.mark.parametrize("unreachable", [None, 0.3])
def test_a_server_that_nobody_can_connect_to_is_unreachable(unreachable: float | None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InfrastructureError, match=r"cannot be reached from here: ConnectError"):
            _prove(base, 0.5 if unreachable is None else 600.0, unreachable)


def test_a_name_that_the_network_does_not_know_is_unreachable() -> None:
    with pytest.raises(InfrastructureError, match="cannot be reached from here"):
        _prove("http://session-v1.invalid:8080", 600.0, 0.2)


def test_a_server_that_answers_is_not_given_up_as_unreachable() -> None:
    answers: Sequence[tuple[int, str]] = [(503, "loading")] * 12 + [(200, "")]
    with served(_app(*answers)) as base:
        assert len(_prove(base, 60.0, unreachable=0.1)) == 1


def test_a_server_without_that_route_is_asked_for_a_completion() -> None:
    asked: list[str] = []

    async def create(request: Any) -> JSONResponse:
        asked.append("create")
        return JSONResponse({"session_id": "s"})

    async def complete(request: Any) -> JSONResponse:
        asked.append("complete")
        return JSONResponse({})

    async def close(request: Any) -> PlainTextResponse:
        asked.append("close")
        return PlainTextResponse("", status_code=204)

    app = Starlette(
        routes=[
            Route("/sessions", create, methods=["POST"]),
            Route("/sessions/s/v1/chat/completions", complete, methods=["POST"]),
            Route("/sessions/s", close, methods=["DELETE"]),
        ]
    )
    with served(app) as base:
        assert len(_prove(base, 5.0)) == 1
    assert asked == ["create", "complete", "close"]
