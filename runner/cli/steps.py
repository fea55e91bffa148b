"""The host's ledger of each lease: the steps of the lease as they happen, and in the end what broke underneath.

It is begun with the first step, so that a host that is killed leaves how far it had come. What a step prints may come
from a log: secrets are taken out before it is written.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from runner.base.events import Event, PhaseEvent
from runner.ledger.paths import lease_cell, lease_ledger
from runner.ledger.records import PhaseRecord, RecreatedRecord
from runner.ledger.writer import LedgerWriter
from runner.stack.redact import Redactor
from runner.verdict.timing import INTERRUPTED


def interrupt(writer: LedgerWriter) -> None:
    """Say in the ledger of a lease that the run was interrupted, and leave it without its trailer."""
    with suppress(OSError):
        writer.write(PhaseRecord(phase=INTERRUPTED))
    writer.abandon()


class HostLedgers:
    """One ledger per lease of a run. Safe for threads."""

    def __init__(self, run: Path, run_id: str, families: Collection[str], redact: Redactor) -> None:
        self._run = run
        self._run_id = run_id
        self._redact = redact
        self._waiting = set(families)
        self._open: dict[str, LedgerWriter] = {}
        self._lock = threading.Lock()

    def note(self, event: Event) -> str:
        """Write a step of a lease down; why that failed is returned, or an empty string.

        A ledger that cannot be written must not keep containers from being removed: it loses its trailer, and the gate
        sees that. That a step is still going on is for watching, and not written.
        """
        if not isinstance(event, PhaseEvent) or (event.phase == "starting" and event.seconds is not None):
            return ""
        try:
            writer = self._of(event.lease)
            if writer is not None:
                detail = self._redact(event.detail.encode()).decode("utf-8", "replace")
                writer.write(PhaseRecord(phase=event.phase, detail=detail, seconds=event.seconds))
        except OSError as error:
            return f"the ledger of lease {event.lease} could not be written: {error}"
        return ""

    def write(self, family: str, record: RecreatedRecord) -> None:
        """Write what became of a lease between its steps, secrets taken out. Raises OSError."""
        writer = self._of(family)
        if writer is None:
            raise ValueError(f"the ledger of lease {family} was ended before, or the lease is not planned")
        clean = self._redact(record.model_dump_json().encode())
        writer.write(RecreatedRecord.model_validate_json(clean))

    def interrupt(self, family: str) -> None:
        """Leave the ledger of a lease that is not done as that of an interrupted one; one that was ended stays."""
        with suppress(OSError):  # without its trailer or any ledger at all, the lease is as little done as with it
            if self._of(family) is not None:
                interrupt(self.take(family))

    def take(self, family: str) -> LedgerWriter:
        """The ledger of a lease, to be ended by the caller; later steps of the lease are not written any more."""
        writer = self._of(family)
        if writer is None:
            raise ValueError(f"the ledger of lease {family} was ended before, or the lease is not planned")
        with self._lock:
            del self._open[family]
        return writer

    def _of(self, family: str) -> LedgerWriter | None:
        with self._lock:
            if family in self._waiting:
                self._waiting.remove(family)
                path = lease_ledger(self._run, family)
                self._open[family] = LedgerWriter(path, run=self._run_id, cell=lease_cell(family), writer="host")
            return self._open.get(family)
