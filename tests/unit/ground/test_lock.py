"""One holder at a time, across processes, and nothing stays locked behind a dead one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground.lock import held

HOLD = "import sys; from pathlib import Path; from runner.ground.lock import held\n" + (
    "with held(Path(sys.argv[1]), timeout=5):\n    print('mine', flush=True)\n    sys.stdin.read()\n"
)


def test_a_second_process_waits_says_for_whom_and_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "made/for/it.lock"
    holders: list[str] = []
    with _other(path) as other:
        with (
            pytest.raises(InfrastructureError) as caught,
            held(path, timeout=0.5, waiting=holders.append),
        ):
            pytest.fail("two holders")
        assert holders == [str(other.pid)]
        assert f"ps -fp {other.pid}" in caught.value.hint


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with _other(path) as other:
        other.kill()
        other.wait()
        with held(path, timeout=5):
            pass


def test_who_waits_gets_it_when_the_holder_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    waiting, order = threading.Event(), []

    def second() -> None:
        with held(path, timeout=30, waiting=lambda holder: waiting.set()):
            order.append("second")

    with held(path, timeout=5):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def _other(path: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    return process
