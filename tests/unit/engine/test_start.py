"""`python -m serve`: what a person sees when it can not start, and what decides how children are started."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve import health, launch

ENGINE = Path(__file__).resolve().parents[3] / "images" / "engine-cpu"


def serve(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "serve", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ENGINE}", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_unknown_action_is_answered_with_the_usage() -> None:
    done = serve("dance")
    assert done.returncode == 2
    assert "start | check | health" in done.stderr


def test_health_without_an_engine_says_why_and_fails() -> None:
    # port 1 is never given to a listener by the kernel, and nothing on a test machine serves tcpmux
    done = serve("health", PORT="1")
    assert done.returncode == 1
    assert "no answer on port 1" in done.stdout


def test_the_health_command_imports_nothing_heavy() -> None:
    code = "import sys, serve.health; print(sorted({'sglang', 'torch', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ENGINE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers as an engine in one state: the class attribute."""

    status = 200
    asked: str | None = None

    def do_GET(self) -> None:
        type(self).asked = self.path
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def test_ready_means_that_a_generation_was_asked_for_and_answered(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "status", 200)
    assert health.health(port) is None
    assert Engine.asked == "/health_generate"


def test_an_engine_that_still_loads_is_not_ready(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "status", 503)
    reason = health.health(port)
    assert reason is not None
    assert "503" in reason


@pytest.mark.parametrize(
    ("asked", "threads", "chosen"),
    [("spawn", 1, "fork"), ("spawn", 2, "spawn"), ("forkserver", 1, "forkserver"), (None, 1, None)],
)
def test_children_are_forked_only_where_spawning_was_asked_for_and_one_thread_runs(
    asked: str | None, threads: int, chosen: str | None
) -> None:
    assert launch.method(asked, threads) == chosen


def test_threads_of_the_process_are_counted() -> None:
    before = launch.threads()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert launch.threads() == before + 1
    finally:
        stop.set()
        thread.join()
