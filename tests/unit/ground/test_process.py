"""Pid files that lie, and a daemon that is nobody's child."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from runner.ground.process import alive, spawn


@pytest.mark.parametrize(
    ("comm", "state", "expected"),
    [
        ("dockerd", "S (sleeping)", True),
        ("dockerd", "Z (zombie)", False),
        ("python3", "R (running)", False),
    ],
    ids=["running", "zombie", "recycled pid"],
)
def test_only_a_running_process_of_that_name_counts(tmp_path: Path, comm: str, state: str, expected: bool) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42/comm").write_text(comm + "\n")
    (tmp_path / "42/status").write_text(f"Name:\t{comm}\nState:\t{state}\nPid:\t42\n")
    (tmp_path / "docker.pid").write_text("42")
    assert alive(tmp_path / "docker.pid", "dockerd", tmp_path) is expected


@pytest.mark.parametrize("content", [None, "", "not a number", "99"])
def test_a_missing_broken_or_stale_pid_file_is_nobody(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "docker.pid").write_text(content)
    assert not alive(tmp_path / "docker.pid", "dockerd", tmp_path)


def test_a_spawned_process_has_its_own_session_the_root_as_folder_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs/daemon.log"
    lives = spawn(("sh", "-c", 'echo "$PWD" "$1"; echo err >&2; echo $$; exec sleep 100', "sh", "a b"), log=log)
    _until(lambda: log.exists() and len(log.read_text().splitlines()) == 3)
    first, second, pid = log.read_text().splitlines()
    assert (first, second) == ("/ a b", "err")
    assert os.getsid(int(pid)) == int(pid)
    assert lives()
    os.kill(int(pid), signal.SIGKILL)
    _until(lambda: not lives())
    assert not Path(f"/proc/{pid}").exists(), "the zombie must be taken away"
    assert not lives()


def test_one_that_ends_at_once_is_seen_to_have_ended(tmp_path: Path) -> None:
    lives = spawn(("/no/such/daemon",), log=tmp_path / "log")
    _until(lambda: not lives())
    assert "/no/such/daemon" in (tmp_path / "log").read_text()


def _until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
