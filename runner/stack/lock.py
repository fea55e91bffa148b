"""A lock file per run: held (flock) for as long as the owning process lives, whatever ends it.

The kernel lets go of the lock at SIGKILL as well, so "the lock can be taken" means "the owner is gone" and nothing
else does. A process id would be reused; a time stamp would be a guess. A lock file that is not there says nothing:
the run may belong to another user or another machine.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path


class Owner(StrEnum):
    """What is known of a run's owner."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def runs_dir() -> Path:
    """Where lock files lie: per user and host, outside any checkout, so that all checkouts see each other's runs."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "tito-e2e" / "runs"


def _path(run_id: str) -> Path:
    return runs_dir() / f"{run_id}.lock"


def leave(run_id: str) -> None:
    """Note that something of a run could not be removed: its lock file then stays, and tells a sweep that it may be."""
    with suppress(OSError):
        _path(run_id).write_bytes(b"something was left\n")


@contextmanager
def held(run_id: str) -> Iterator[Path]:
    """Hold the lock of `run_id`; yields the lock file's path. The file is removed at a clean end that left nothing."""
    path = _path(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path
        if not os.fstat(descriptor).st_size:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def owner(path: Path) -> Owner:
    """Whether the process that holds this lock file still lives."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return Owner.UNKNOWN
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Owner.ALIVE
    finally:
        os.close(descriptor)
    return Owner.DEAD
