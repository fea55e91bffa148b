"""SIGINT and SIGTERM: the first ends the work, and none of them ends the clean-up.

The first signal raises KeyboardInterrupt where the main thread is, so that every `finally` on the way out runs; while
evidence is being collected it waits until that is done. From then on signals are answered with a line: a person who
presses Ctrl-C twice wants it faster, not containers left.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = "still collecting and removing; this takes a few seconds (to give up anyway: SIGKILL, then `make sweep`)"


class _Signals:
    """What came, and whether the main thread may be interrupted now."""

    seen = False
    waiting: str | None = None
    finishing = 0


@contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Within the block SIGINT and SIGTERM raise KeyboardInterrupt once; handlers are restored at the end."""
    _Signals.seen, _Signals.waiting = False, None

    def handle(number: int, frame: FrameType | None) -> None:
        if _Signals.seen:
            print(_AGAIN, file=sys.stderr, flush=True)
            return
        _Signals.seen = True
        name = signal.Signals(number).name
        if _Signals.finishing:
            _Signals.waiting = name
            print(_AGAIN, file=sys.stderr, flush=True)
            return
        raise KeyboardInterrupt(name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def finishing() -> Iterator[None]:
    """A block that no signal interrupts: KeyboardInterrupt comes at its end. Other threads are never interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Signals.finishing += 1
    try:
        yield
    finally:
        _Signals.finishing -= 1
    if not _Signals.finishing and _Signals.waiting is not None:
        name, _Signals.waiting = _Signals.waiting, None
        raise KeyboardInterrupt(name)
