"""Running one command: what came of it, and the error a person reads."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground.shell import MISSING, Result, run


def test_output_code_and_time_are_kept() -> None:
    result = run(("sh", "-c", "echo out; echo err >&2; exit 3"), timeout=10)
    assert (result.code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok
    assert 0 < result.seconds < 10


def test_a_missing_executable_is_a_result_and_no_exception() -> None:
    result = run(("no-such-command-of-ours",), timeout=1)
    assert result.missing
    assert result.code == MISSING
    assert "could not start" in result.explain()


def test_env_is_added_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "kept")
    assert run(("sh", "-c", "echo $KEPT $MORE"), timeout=10, env={"MORE": "more"}).stdout == "kept more\n"


def test_stdin_comes_from_a_file_and_else_is_empty(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hello")
    assert run(("cat",), timeout=10, stdin=tmp_path / "in").stdout == "hello"
    assert run(("cat",), timeout=10).stdout == ""


def test_a_streamed_command_writes_its_log_as_it_goes_and_keeps_the_last_lines(tmp_path: Path) -> None:
    seen: list[str] = []
    script = "for i in range(1000): print('line', i)"
    result = run((sys.executable, "-c", script), timeout=30, log=tmp_path / "a/b.log", on_line=seen.append)
    assert seen == [f"line {i}" for i in range(1000)]
    assert (tmp_path / "a/b.log").read_text().splitlines() == seen
    assert result.stdout.splitlines()[-1] == "line 999"
    assert len(result.stdout.splitlines()) == 400


def test_a_time_out_ends_the_whole_process_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    result = run(("sh", "-c", f"sleep 100 & echo $! > {pid_file}; wait"), timeout=0.5)
    assert result.timed_out
    assert not result.ok
    assert "was stopped after" in result.explain()
    _wait_until_gone(int(pid_file.read_text()))


def test_a_command_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.ground.shell._GRACE", 0.3)
    result = run(("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"), timeout=0.3)
    assert result.timed_out
    assert result.code == -signal.SIGKILL


def test_cancelling_ends_it_and_is_no_time_out() -> None:
    cancel = threading.Event()
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        cancel.set()

    result = run(("sh", "-c", "echo up; exec sleep 100"), timeout=60, on_line=line, cancel=cancel)
    assert lines == ["up"]
    assert not result.timed_out
    assert result.code == -signal.SIGTERM


def test_bytes_that_are_no_utf8_do_not_break_it() -> None:
    assert run(("printf", r"\377ok"), timeout=10).stdout == "\ufffdok"


def test_check_returns_a_good_result_and_names_everything_of_a_bad_one() -> None:
    good = Result(("true",), 0)
    assert good.check("never shown") is good
    bad = Result(("docker", "pull", "a b"), 1, stderr="\n".join(f"line {i}" for i in range(40)), log=Path("x.log"))
    with pytest.raises(InfrastructureError) as caught:
        bad.check("the image could not be pulled", "docker login", lines=3)
    text = str(caught.value)
    assert "the image could not be pulled: `docker pull 'a b'` ended with 1" in text
    assert "line 36" not in text
    assert "line 37\n    line 38\n    line 39" in text
    assert "whole output: x.log" in text
    assert caught.value.hint == "docker login"


def test_the_tail_is_stdout_where_stderr_is_empty() -> None:
    assert Result(("x",), 1, stdout="a\nb\n").tail(1) == "b"


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
    pytest.fail(f"process {pid} is still there")
