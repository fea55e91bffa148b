"""One file lock per thing that two processes must not make at the same time.

The kernel drops the lock when its holder dies, so nothing is ever left locked. The file itself stays; removing it
would let two processes hold "the same" lock on two different files.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.base.errors import InfrastructureError

_TICK = 0.2
"""Seconds between two attempts to take a lock that somebody holds."""


@contextmanager
def held(path: Path, *, timeout: float, waiting: Callable[[str], None] = lambda holder: None) -> Iterator[None]:
    """Hold the lock at `path`. `waiting` is called once with the holder's pid where somebody has it already.

    Raises InfrastructureError after `timeout` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, path, timeout, waiting)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, timeout: float, waiting: Callable[[str], None]) -> None:
    deadline = time.monotonic() + timeout
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        if not told:
            waiting(holder)
            told = True
        if time.monotonic() >= deadline:
            raise InfrastructureError(
                f"{path.name}: still held by process {holder} after {timeout:.0f} s",
                f"look at it with `ps -fp {holder}`; end it if it hangs, then run this again",
            )
        time.sleep(_TICK)
