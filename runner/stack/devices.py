"""GPUs shared fairly by all runs on one host: a lock file per device, held for as long as a lease uses it.

A lease takes all of its devices or none, so that two leases never wait for each other's. The locks are flocks: a
process that is killed lets go of its devices, whatever ended it. They lie per user and host, not per checkout; that a
device is also free of foreign processes is the doctor's business.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from runner.base.errors import InfrastructureError
from runner.plan.model import PlannedLease
from runner.stack.lock import runs_dir

_POLL_SECONDS = 0.5


def devices_dir() -> Path:
    """Where the lock files of the devices lie."""
    return runs_dir().parent / "devices"


class Devices:
    """The devices that this run may use."""

    def __init__(self, names: Sequence[str], directory: Path | None = None) -> None:
        self.names = tuple(names)
        self._directory = directory or devices_dir()

    def locked(self, name: str) -> bool:
        """Whether a lease, of this run or another, uses this device now."""
        taken = Taken()
        self._directory.mkdir(parents=True, exist_ok=True)
        taken.add(name, self._directory / f"{name}.lock")
        free = bool(taken.names)
        taken.release()
        return not free

    def take(self, count: int) -> Taken | None:
        """Lock `count` devices that nobody holds, or none of them. Does not wait."""
        taken = Taken()
        self._directory.mkdir(parents=True, exist_ok=True)
        for name in self.names:
            if len(taken.names) == count:
                break
            taken.add(name, self._directory / f"{name}.lock")
        if len(taken.names) == count:
            return taken
        taken.release()
        return None


class Taken:
    """Devices that are held until `release`."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self._held = ExitStack()

    def add(self, name: str, path: Path) -> None:
        """Hold one more device, if nobody else does."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return
        self._held.callback(os.close, descriptor)
        self.names += (name,)

    def release(self) -> None:
        """Let go of all of them; safe to call twice."""
        self._held.close()
        self.names = ()


@dataclass
class Stop:
    """Tells leases in other threads to end: their waiting is interrupted as the main thread's is by Ctrl-C."""

    asked: Event

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises KeyboardInterrupt as soon as a stop is asked for."""
        if self.asked.wait(seconds):
            raise KeyboardInterrupt


Work = Callable[[PlannedLease, Sequence[str], Stop], None]


def run_packed(
    leases: Sequence[PlannedLease],
    devices: Devices,
    work: Work,
    *,
    waiting: Callable[[str], None] = lambda why: None,
    stop: Stop | None = None,
    at_once: int | None = None,
) -> None:
    """Run `work` for every lease, each as soon as the devices it needs are free; the order of `leases` is kept.

    `at_once` is the most that run at the same time, None for as many as the devices allow.

    A lease that fits is not held up by a bigger one that has to wait. Ctrl-C ends all of them and waits for their
    clean-up. What `work` raises is raised again, once every other lease has ended. `waiting` is told once, when nothing
    runs because another run holds the devices.

    Raises InfrastructureError, before anything runs, for a lease that needs more devices than there are.
    """
    for lease in leases:
        if lease.gpus > len(devices.names):
            raise InfrastructureError(
                f"family {lease.family} needs {lease.gpus} GPUs, and {len(devices.names)} can be used"
                f" ({', '.join(devices.names) or 'none'})",
                "nvidia-smi   # who holds the others; name devices with GPUS=...",
            )
    told = False
    stop = stop or Stop(Event())
    pending, running = list(leases), dict[Future[None], Taken]()
    with ThreadPoolExecutor(max(1, len(pending)), thread_name_prefix="lease") as pool:
        done: set[Future[None]] = set()
        try:
            while pending or running:
                for lease in [*pending]:
                    if len(running) == at_once:
                        break
                    taken = devices.take(lease.gpus)
                    if taken is not None:
                        pending.remove(lease)
                        running[pool.submit(work, lease, taken.names, stop)] = taken
                ended, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                if not running:
                    if not told:
                        told = True
                        waiting(f"waiting for GPUs that another run holds, out of {', '.join(devices.names)}")
                    stop.sleep(_POLL_SECONDS)  # another run holds the devices
                for future in ended:
                    running.pop(future).release()
                done |= ended
        except BaseException:
            stop.asked.set()
            wait(running)
            raise
        finally:
            for taken in running.values():
                taken.release()
        for future in done:
            future.result()
