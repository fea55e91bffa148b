"""SIGINT and SIGTERM: the first ends the work, later ones must not end the clean-up.

The first signal raises KeyboardInterrupt where the main thread is, so that every `finally` on the way out runs. From
then on signals are only answered with a line: a person who presses Ctrl-C twice wants it faster, not containers left.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = "still collecting and removing; this takes a few seconds (to give up anyway: SIGKILL, then `make sweep`)"


@contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Within the block SIGINT and SIGTERM raise KeyboardInterrupt once; handlers are restored at the end."""
    seen = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            print(_AGAIN, file=sys.stderr, flush=True)
            return
        seen = True
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
