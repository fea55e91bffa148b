"""Where a command is told to write: tried before the work that would be lost, and named with the reason where it fails.

A place that cannot be written is what a person asked for and cannot have, so it is wrong configuration. What breaks
later under a run that goes on is not looked at here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.base.errors import ConfigurationError


@contextmanager
def writing(named: str, path: Path) -> Iterator[None]:
    """An OSError within the block is a ConfigurationError that names the option or variable, its value and why."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError([f"{named}={str(path)!r} cannot be written: {error}"]) from error


def writable(named: str, directory: Path) -> None:
    """Make the directory, and a file in it that is gone again. Raises ConfigurationError where that does not work."""
    with writing(named, directory):
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".writable-"):
            pass
