"""A daemon that outlives us, and pid files that may lie.

A pid file counts only when the process in it has the right name and is no zombie: after a SIGKILL the file stays, and
the number in it is soon somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

Alive = Callable[[], bool]
"""Whether a process that was started still lives."""

_PROC = Path("/proc")
_NAME_LENGTH = 15
"""The kernel keeps this many characters of a process's name."""


def alive(pid_file: Path, name: str, proc: Path = _PROC) -> bool:
    """Whether the pid in the file is a running process called `name`: not gone, not a zombie, not a recycled number."""
    try:
        pid = int(pid_file.read_text().strip())
        comm = (proc / str(pid) / "comm").read_text().strip()
        status = (proc / str(pid) / "status").read_text()
    except (OSError, ValueError):
        return False
    zombie = any(line.startswith("State:") and line.split()[1] == "Z" for line in status.splitlines())
    return comm == name[:_NAME_LENGTH] and not zombie


def spawn(argv: Sequence[str], *, log: Path) -> Alive:
    """Start `argv` in a session of its own, in `/`, its output appended to `log`; it keeps running when we end.

    Raises OSError where the executable does not exist.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # the shell only changes the folder and is replaced: a daemon must not keep our folder busy
    command = ("/bin/sh", "-c", 'cd / && exec "$0" "$@"', *argv)
    pid = os.posix_spawn(
        command[0],
        command,
        dict(os.environ),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )

    def lives() -> bool:
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)  # also takes the zombie away
        except ChildProcessError:
            return False
        return ended == 0

    return lives
