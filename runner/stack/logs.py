"""Service logs on disk while they are written, so that they are there whatever ends the run.

One thread per container copies what Docker streams into a file; it ends when the container does. Should the stream
break (a restarted Docker engine), the rest is fetched once more at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import docker
from docker.models.containers import Container

from runner.stack.redact import Redactor

_JOIN_SECONDS = 5.0
_ENDED = ("exited", "dead", "removing")


class LogFollower:
    """Copies one container's log into `path`; every complete line also goes to `on_line`, without its time stamp."""

    def __init__(
        self,
        container: Container,
        path: Path,
        redact: Redactor,
        *,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self._container = container
        self._path = path
        self._redact = redact
        self._on_line = on_line
        self.broke = ""
        """Why the stream ended early, or empty."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._run, name=f"log:{path.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rest = b""
        try:
            with self._path.open("wb", buffering=0) as file:
                for chunk in self._container.logs(stream=True, follow=True, timestamps=True):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        self._line(file.write, line)
                if rest:
                    self._line(file.write, rest)
            self.broke = self._early()
        except (docker.errors.DockerException, OSError, ValueError) as error:
            self.broke = f"{type(error).__name__}: {error}"

    def _early(self) -> str:
        """Why the end of the stream is not the end of the log, or empty: an engine that goes down just ends it."""
        try:
            self._container.reload()
        except docker.errors.NotFound:
            return ""
        except docker.errors.DockerException as error:
            return f"the stream ended, and {error}"
        return "" if self._container.status in _ENDED else "the stream ended while the container was running"

    def _line(self, write: Callable[[bytes], int | None], line: bytes) -> None:
        clean = self._redact(line)
        write(clean + b"\n")
        if self._on_line is not None:
            _, _, text = clean.partition(b" ")
            self._on_line(text.decode("utf-8", "replace"))

    def finish(self, *, ended: bool = True) -> None:
        """Wait for the end of the stream if the container has `ended`; else, or where it broke, fetch the log anew."""
        self._thread.join(_JOIN_SECONDS if ended else 0)
        if self._thread.is_alive() or self.broke:
            try:
                whole = self._container.logs(timestamps=True)
            except docker.errors.DockerException:
                return
            self._path.write_bytes(self._redact(whole))
