"""The scripted engine as a process: faults from the environment, and its sudden end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.unit.agents.bench import MODEL, ROOT


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def process(faults: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "SCRIPTED_ENGINE_MODEL": str(MODEL),
        "SCRIPTED_ENGINE_PORT": str(port),
        "SCRIPTED_ENGINE_FAULTS": faults,
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "scripted_engine"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield child, f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.communicate()


@retry(
    retry=retry_if_exception_type(httpx.ConnectError), stop=stop_after_delay(60), wait=wait_fixed(0.05), reraise=True
)
def healthy(url: str) -> bool:
    return httpx.get(f"{url}/health").status_code == 200


def test_faults_come_from_the_environment_and_die_ends_the_process() -> None:
    with process('[{"kind": "die", "turn": 2}]') as (child, url):
        assert healthy(url)
        body = {"messages": [], "input_ids": [1]}
        assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{url}/v1/chat/completions", json=body)
        assert child.wait(timeout=10) == 1


def test_faults_that_do_not_exist_end_the_start() -> None:
    with process('[{"kind": "explode"}]') as (child, _):
        assert child.wait(timeout=60) == 1
        assert child.stderr is not None
        assert b"explode" in child.stderr.read()
