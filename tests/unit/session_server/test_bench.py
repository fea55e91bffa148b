"""The load measures what it says it measures."""

from __future__ import annotations

import asyncio
import os

import pytest
from bench.__main__ import GROWTH, SHAPES, TURNS_PER_SECOND, figures, line, missed
from bench.load import Shape, Target, Wire, cpu_seconds, run
from bench.outcome import Outcome, Rounds, growth
from bench.stub import Stub, reply
from session_server.tito.vocabulary import Vocabulary

pytestmark = pytest.mark.anyio


async def test_every_turn_of_every_session_is_driven_and_timed(qwen: Vocabulary) -> None:
    requests: list[bytes] = []

    class Counting(Stub):
        def data_received(self, data: bytes) -> None:
            requests.append(data)
            super().data_received(data)

    answer = reply(qwen)
    server = await asyncio.get_running_loop().create_server(lambda: Counting(answer), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        outcome = await run(Target(os.getpid(), port, Wire.DIRECT), Shape(3, 4, 5))
    assert [len(session) for session in outcome.turns] == [4, 4, 4]
    assert b"".join(requests).count(b"POST /v1/chat/completions") == 12
    assert outcome.rate == pytest.approx(12 / outcome.seconds)
    assert len(outcome.cpu_marks) == 5
    assert outcome.cpu_marks == sorted(outcome.cpu_marks)
    assert outcome.cpu_marks[4] - outcome.cpu_marks[0] == pytest.approx(
        sum(outcome.cpu_quarter(number) for number in range(4)) * 3 / 1000
    )


def test_a_refusal_ends_the_load() -> None:
    async def refused() -> None:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 409 Conflict\r\ncontent-length: 4\r\n\r\nbusy")
            await reader.read()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await run(Target(os.getpid(), port, Wire.DIRECT), Shape(1, 1, 1))

    with pytest.raises(RuntimeError, match="409 Conflict: busy"):
        asyncio.run(refused())


def test_processor_time_of_a_process_is_seen() -> None:
    before = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) == before:
        sum(range(10_000))
    assert cpu_seconds(2**22 + 1) == 0.0


def test_growth_leaves_out_what_the_request_body_costs_by_itself() -> None:
    stub = Rounds([Outcome(turns=[[0.001, 0.001, 0.001, 0.003]])])
    target = Rounds([Outcome(turns=[[0.010, 0.010, 0.010, 0.015]])])
    assert growth(target, stub) == pytest.approx(1.3)


def test_runs_are_taken_together() -> None:
    slow = Outcome(2.0, [0.0, 0.1, 0.2, 0.3, 0.8], [[0.3, 0.2, 0.1, 0.4], [0.3, 0.2, 0.1, 0.4]])
    fast = Outcome(1.0, [1.0, 1.1, 1.2, 1.3, 1.4], [[0.1, 0.1, 0.1, 0.2], [0.1, 0.1, 0.1, 0.1]])
    rounds = Rounds([slow, fast, fast])
    assert rounds.rate == 8.0
    assert rounds.quarter(0) == pytest.approx(100)
    assert rounds.quarter(3) == pytest.approx(200)
    assert rounds.percentile(0.99) == pytest.approx(400)
    assert rounds.cpu_milliseconds == pytest.approx(50)
    assert [rounds.cpu_quarter(number) for number in (0, 3)] == pytest.approx([50, 50])
    row = figures(rounds, rounds)
    assert row["growth"] == pytest.approx(1.0)
    assert line("v1", row).split() == ["v1", "8", *(f"{value:.2f}" for value in list(row.values())[1:])]
    assert len(line("stub", row).split()) == len(line("v1", row).split()) - 1


def test_what_is_missed_is_said() -> None:
    shape = SHAPES[0]
    met = {"turns_per_second": TURNS_PER_SECOND[shape], "growth": GROWTH}
    assert missed(met, shape) == ""
    assert missed({"turns_per_second": 399.0, "growth": 1.31}, shape) == "below 400 turns/s, grows more than 1.3 x"
