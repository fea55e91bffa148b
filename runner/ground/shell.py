"""Run one command and say what came of it.

Every external command of this package goes through `run`, so that a test replaces one callable and no process starts.
A failing command is an ordinary `Result`; it becomes an error only where the caller says which message a person needs.
Deliberately not here: shell syntax (argument lists only), retries, and any knowledge of the commands themselves.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from runner.base.errors import InfrastructureError

MISSING = 127
"""Exit code of a command whose executable does not exist, as in a shell."""

_TICK = 0.1
"""Seconds between two looks at a running command's time-out and cancellation."""

_GRACE = 5.0
"""Seconds between asking a command to end and killing it."""

_KEPT_LINES = 400
"""Lines of streamed output kept for the error message; the log file has all of them."""


@dataclass(frozen=True)
class Result:
    """What a command did. `seconds` is wall time; `code` is negative for a signal, `MISSING` for no executable."""

    argv: tuple[str, ...]
    code: int
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    log: Path | None = None

    @property
    def ok(self) -> bool:
        """Exit code 0."""
        return self.code == 0 and not self.timed_out

    @property
    def missing(self) -> bool:
        """The executable does not exist."""
        return self.code == MISSING

    def tail(self, lines: int = 12) -> str:
        """The last lines of what it wrote: of stderr, or of stdout where stderr is empty."""
        text = self.stderr.strip() or self.stdout.strip()
        return "\n".join(text.splitlines()[-lines:])

    def explain(self, lines: int = 12) -> str:
        """The command, how it ended, and its last lines, indented."""
        if self.timed_out:
            end = f"was stopped after {self.seconds:.0f} s"
        elif self.missing:
            end = "could not start"
        else:
            end = f"ended with {self.code} after {self.seconds:.1f} s"
        text = f"`{shlex.join(self.argv)}` {end}"
        tail = self.tail(lines)
        if tail:
            text += ":\n" + "\n".join(f"    {line}" for line in tail.splitlines())
        return text

    def check(self, what: str, hint: str = "", lines: int = 12) -> Result:
        """Return self, or raise InfrastructureError with `what`, the command, its last lines and `hint`."""
        if self.ok:
            return self
        where = f"\n    whole output: {self.log}" if self.log else ""
        raise InfrastructureError(f"{what}: {self.explain(lines)}{where}", hint)


class Run(Protocol):
    """The shape of `run`; tests hand in their own."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Path | None = None,
        log: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> Result:
        """See `run`."""


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: Path | None = None,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
) -> Result:
    """Run `argv` for at most `timeout` seconds and return how it ended; never raises because of the command.

    `env` is added to this process's environment. With `log` or `on_line` both output streams are merged: each line is
    appended to `log` and handed to `on_line` as it comes, and the last lines are kept as `stdout`. The command gets a
    process group of its own, which is ended whole on time-out, on `cancel` and on KeyboardInterrupt.
    """
    merged = log is not None or on_line is not None
    started = time.monotonic()
    with ExitStack() as stack:
        source: IO[bytes] | int = stack.enter_context(stdin.open("rb")) if stdin else subprocess.DEVNULL
        sink = stack.enter_context(_log(log))
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError) as error:
            return Result(tuple(argv), MISSING, stderr=f"{argv[0]}: {error.strerror}", log=log)
        out: list[str] = []
        err: list[str] = []
        readers = [threading.Thread(target=_read, args=(process.stdout, out, sink, on_line, merged), daemon=True)]
        if process.stderr is not None:
            readers.append(threading.Thread(target=_read, args=(process.stderr, err, None, None, False), daemon=True))
        for reader in readers:
            reader.start()
        timed_out = False
        try:
            finished = _wait(process, started + timeout, cancel)
            timed_out = not finished and not (cancel is not None and cancel.is_set())
        finally:
            if process.poll() is None:
                _end(process)
            for reader in readers:  # a grandchild that keeps the pipe open must not hold us
                reader.join(timeout=_GRACE)
            for stream in (process.stdout, process.stderr):
                if stream is not None and not any(reader.is_alive() for reader in readers):
                    stream.close()
    seconds = time.monotonic() - started
    return Result(tuple(argv), process.returncode, "".join(out), "".join(err), seconds, timed_out, log)


@contextmanager
def _log(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", buffering=1) as sink:
        yield sink


def _read(
    stream: IO[str], kept: list[str], sink: IO[str] | None, on_line: Callable[[str], None] | None, bounded: bool
) -> None:
    for line in stream:
        kept.append(line)
        if bounded and len(kept) > _KEPT_LINES:
            del kept[0]
        if sink is not None and not sink.closed:
            sink.write(line)
        if on_line is not None:
            on_line(line.rstrip("\n"))


def _wait(process: subprocess.Popen[str], deadline: float, cancel: threading.Event | None) -> bool:
    """Wait for the end; False where the deadline came first or the command was cancelled."""
    while True:
        try:
            process.wait(timeout=min(_TICK, max(0.0, deadline - time.monotonic())))
            return True
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline or (cancel is not None and cancel.is_set()):
                return False


def _end(process: subprocess.Popen[str]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=_GRACE)
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()
