"""The load: sessions that grow turn by turn, over bare sockets so that the client costs little."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import orjson

from bench.outcome import Outcome
from bench.stub import ANSWER, content_length

_TEXT = (
    "weather city degrees sunny cloudy rain today tomorrow please check the in of and with answer question "
    "temperature wind north south river mountain morning evening light heavy warm cold"
)
WORDS = tuple(_TEXT.split())
SYSTEM = "You are a weather assistant."


@dataclass(frozen=True, slots=True)
class Shape:
    """`sessions` at the same time, each with `turns` turns, each of which adds `words` words."""

    sessions: int
    turns: int
    words: int

    def __str__(self) -> str:
        return f"{self.sessions} sessions x {self.turns} turns x {self.words} words"


class Connection:
    """One keep-alive HTTP/1.1 connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a port of this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def post(self, path: str, body: bytes) -> bytes:
        """Send a request; returns the answer's body.

        Raises:
            RuntimeError: the status is not 200.
        """
        head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        self._writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        content = await self._reader.readexactly(content_length(answer))
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {answer.splitlines()[0].decode()}: {content[:300].decode()}")
        return content

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Wire(StrEnum):
    """How the load speaks: chat completions to the stub itself, or to a session in one of the two dialects."""

    DIRECT = "direct"
    CHAT = "chat"
    MESSAGES = "messages"

    @property
    def path(self) -> str:
        """Where a turn is asked for."""
        return "/v1/messages" if self is Wire.MESSAGES else "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Target:
    """What is driven: a process, its port, and how it is spoken to."""

    pid: int
    port: int
    wire: Wire


def _bodies(shape: Shape, seed: int, wire: Wire) -> Sequence[bytes]:
    """The requests of one session, made before the clock starts."""
    rng = random.Random(seed)  # noqa: S311 - words of a load, no secret
    fields: dict[str, object] = {"model": "stub", "temperature": 0.7, "max_tokens": 256}
    messages: list[dict[str, object]] = []
    answer: object = ANSWER
    if wire is Wire.MESSAGES:
        fields["system"] = SYSTEM
        answer = [{"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": ANSWER}]
    else:
        messages.append({"role": "system", "content": SYSTEM})
    bodies: list[bytes] = []
    for _ in range(shape.turns):
        messages.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=shape.words))})
        bodies.append(orjson.dumps({"messages": messages, **fields}))
        messages.append({"role": "assistant", "content": answer})
    return bodies


async def _session(target: Target, bodies: Sequence[bytes], done: Callable[[], None]) -> list[float]:
    connection = await Connection.open(target.port)
    try:
        path = target.wire.path
        if target.wire is not Wire.DIRECT:
            created = orjson.loads(await connection.post("/sessions", b"{}"))
            path = f"/sessions/{created['session_id']}{path}"
        seconds: list[float] = []
        for body in bodies:
            started = time.perf_counter()
            await connection.post(path, body)
            seconds.append(time.perf_counter() - started)
            done()
        return seconds
    finally:
        await connection.close()


def cpu_seconds(pid: int) -> float:
    """Processor time that the threads of a process have used; 0 where the system does not say."""
    try:
        used = [int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except OSError:
        return 0.0
    return sum(used) / 1e9


async def run(target: Target, shape: Shape) -> Outcome:
    """Drive `shape` against a target."""
    requests = [_bodies(shape, seed, target.wire) for seed in range(shape.sessions)]
    outcome = Outcome(cpu_marks=[cpu_seconds(target.pid)])
    total, finished = shape.sessions * shape.turns, 0

    def done() -> None:
        nonlocal finished
        finished += 1
        if finished * 4 >= total * len(outcome.cpu_marks):
            outcome.cpu_marks.append(cpu_seconds(target.pid))

    started = time.perf_counter()
    outcome.turns = await asyncio.gather(*(_session(target, bodies, done) for bodies in requests))
    outcome.seconds = time.perf_counter() - started
    return outcome
