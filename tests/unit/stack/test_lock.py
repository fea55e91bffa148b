"""The run lock tells a living owner from a dead one, whatever ended it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.stack.lock import Owner, held, leave, owner


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_an_owner_is_alive_while_it_holds_the_lock_and_leaves_no_file() -> None:
    with held("run-a") as path:
        assert owner(path) is Owner.ALIVE
    assert not path.exists()
    assert owner(path) is Owner.UNKNOWN


def test_an_owner_that_left_something_is_dead_and_not_unknown() -> None:
    with held("run-a") as path:
        leave("run-a")
        assert owner(path) is Owner.ALIVE
    assert owner(path) is Owner.DEAD
    leave("a run without a directory")


def test_a_killed_owner_is_dead(tmp_path: Path) -> None:
    code = "from runner.stack.lock import held\nwith held('run-b') as path:\n    print(path, flush=True)\n    input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    path = Path(child.stdout.readline().strip())
    assert owner(path) is Owner.ALIVE
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdin.close()
    child.stdout.close()
    assert path.exists()
    assert owner(path) is Owner.DEAD


def test_two_owners_of_one_run_id_are_refused() -> None:
    with held("run-c"), pytest.raises(BlockingIOError), held("run-c"):
        pass
