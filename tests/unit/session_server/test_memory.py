"""What a client can send and the server must refuse leaves nothing behind: memory stays where it was."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

PACKAGE = Path(__file__).parents[3] / "images" / "session-server"
BODY_LIMIT = 65_536
WARM, LOAD = 300, 3_000
GROWTH_LIMIT = 32 * 1024
"""KiB. 3,000 bodies of about 32 KiB are 94 MiB: kept, they would show three times over."""


@pytest.fixture
def server(qwen_path: Path) -> Iterator[tuple[int, str]]:
    """A server that takes small bodies only."""
    yield from _serving(qwen_path, {"SESSION_SERVER_MAX_BODY_BYTES": str(BODY_LIMIT)})


@pytest.fixture(scope="module")
def large(qwen_path: Path) -> Iterator[tuple[int, str]]:
    """A server as it is when nothing is said of bodies."""
    yield from _serving(qwen_path, {})


def _serving(qwen_path: Path, more: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Process id and base URL of a server in a process of its own; no engine is behind it."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SESSION_SERVER_")},
        "SESSION_SERVER_ENGINE_URL": "http://127.0.0.1:9",
        "SESSION_SERVER_CORE_VERSION": "v2",
        "SESSION_SERVER_TOKENIZER_PATH": str(qwen_path),
        "SESSION_SERVER_TITO_MODEL": "qwen3",
        "SESSION_SERVER_HOST": "127.0.0.1",
        "SESSION_SERVER_PORT": "0",
        **more,
        "PYTHONPATH": str(PACKAGE),
        "PYTHONUNBUFFERED": "1",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "session_server"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    said = []
    reader: threading.Thread | None = None
    try:
        for line in child.stdout:
            said.append(line)
            if found := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            raise AssertionError(f"it ended: {''.join(said)}")
        # Read on: a full pipe would stop the server at its next log line.
        reader = threading.Thread(target=child.stdout.read, daemon=True)
        reader.start()
        yield child.pid, found[1]
    finally:
        child.terminate()
        assert child.wait(60) == 0
        if reader is not None:
            reader.join(10)
        child.stdout.close()


def _peak(pid: int) -> int:
    """KiB of memory that the process held at most so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]


def _resident(pid: int) -> int:
    """KiB of memory that the process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]


def test_thousands_of_refused_bodies_leave_the_memory_where_it_was(server: tuple[int, str]) -> None:
    pid, base = server
    draw = random.Random(7)  # noqa: S311 - noise, not a secret
    with httpx.Client(base_url=base, timeout=30) as client:
        session = client.post("/sessions").json()["session_id"]
        routes = [f"/sessions/{session}/v1/chat/completions", f"/sessions/{session}/v1/messages"]

        def load(count: int) -> set[int]:
            seen = set()
            for _ in range(count):
                size = draw.randrange(1, BODY_LIMIT + 4_096)
                noise = draw.randbytes(size)
                text = (
                    b'{"model":"m","max_tokens":1,"messages":[{"role":"robot","content":"' + noise.hex().encode()[:size]
                )
                body = draw.choice([noise, text, text + b'"}]}'])
                seen.add(client.post(draw.choice(routes), content=body).status_code)
            return seen

        load(WARM)
        before = _resident(pid)
        statuses = load(LOAD)
        after = _resident(pid)
        assert client.get(f"/sessions/{session}").json()["records"] == []
    assert statuses <= {400, 409, 413, 422}, statuses
    assert {400, 413} <= statuses
    assert after - before < GROWTH_LIMIT, f"{before} KiB before, {after} KiB after"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[' + b"1," * 4_000_000 + b"1]}",
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[' + b"[]," * 3_000_000 + b"[]]}]}",
        b'{"messages":[{"role":"user","content":"' + b'\\"' * 4_000_000 + b'"},{}],"n":2}',
    ],
    ids=["a million messages", "a million blocks", "a million quotes"],
)
@pytest.mark.parametrize("route", ["chat/completions", "messages"])
def test_one_large_wrong_body_takes_a_multiple_of_its_size_and_no_more(
    large: tuple[int, str], body: bytes, route: str
) -> None:
    pid, base = large
    with httpx.Client(base_url=base, timeout=60) as client:
        session = client.post("/sessions").json()["session_id"]
        before = _peak(pid)
        response = client.post(f"/sessions/{session}/v1/{route}", content=body)
        assert response.status_code == 400
        assert len(response.content) < 2_000
        assert _peak(pid) - before < 30 * len(body) // 1024
