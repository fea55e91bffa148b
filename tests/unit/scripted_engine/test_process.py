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
def process(faults: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "SCRIPTED_ENGINE_MODEL": str(MODEL),
        "SCRIPTED_ENGINE_PORT": str(port),
        "SCRIPTED_ENGINE_FAULTS": faults,
        **more,
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


@pytest.mark.parametrize("fault", ['{"kind": "die", "turn": 2}', '{"kind": "hoard", "turn": 2, "value": 1}'])
def test_faults_come_from_the_environment_and_end_the_process(fault: str) -> None:
    with process(f"[{fault}]") as (child, url):
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


def test_a_fault_of_one_family_is_in_its_engine_alone() -> None:
    fault = '[{"kind": "status", "value": 418, "times": null, "family": "glm47"}]'
    answers = {}
    for family in ("glm47", "qwen3"):
        with process(fault, FAMILY=family) as (_, url):
            assert healthy(url)
            answers[family] = httpx.post(f"{url}/v1/chat/completions", json={"messages": [], "input_ids": [1]})
    assert {family: answer.status_code for family, answer in answers.items()} == {"glm47": 418, "qwen3": 200}


def test_a_family_without_a_model_directory_ends_the_start_by_name() -> None:
    with process("[]", FAMILY="klingon", SCRIPTED_ENGINE_MODEL="") as (child, _):
        assert child.wait(timeout=60) == 1
        assert child.stderr is not None
        assert b"no model directory /models/klingon" in child.stderr.read()
