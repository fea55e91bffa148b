"""Writes a ledger: one record, one line, one `os.write`.

The one write to an append-only descriptor is what keeps every earlier record when the process is killed in the next
instant; buffering would lose them. The lock makes the writer safe for threads, and for tasks because nothing awaits in
between; times are taken under it, so that they rise with the lines. The writer never repairs: a short write breaks it
for good, and it leaves no trailer, so that the gate sees an unfinished ledger instead of a repaired one. One file has
one writer; a second writer of the same cell takes a file of its own (`runner.ledger.paths`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from runner.base.errors import InfrastructureError, ModelIncompleteError, VerificationError
from runner.ledger.records import Body, ErrorBody, Header, InfraRecord, Trailer, VerificationErrorRecord

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o600


class LedgerError(OSError):
    """The ledger could not be written as it must be. What is on disk is left as it is."""


def encode(record: BaseModel) -> bytes:
    """One line of strict JSON, newline included.

    The record is validated again first: a field that was assigned after construction could hold a NaN, which a
    serializer would quietly turn into `null`.

    Raises:
        pydantic.ValidationError: a value does not belong into a ledger.
    """
    checked = type(record).model_validate(record.model_dump())
    return checked.model_dump_json().encode() + b"\n"


class LedgerWriter:
    """The one writer of one ledger file. Use as a context manager.

    Leaving the block normally writes the trailer. Leaving it through an exception does not: the trailer says that
    the writer got to its end, and it did not.

    Args:
        path: the file; its directory is made. It must not hold anything yet.
        run: run id.
        cell: `family/lane/scenario`, or `lease:<family>`.
        writer: who writes, for people (`runner`, `host`, ...).
        started_at: the time of day of the header; now by default.
        clock: seconds, never running backwards: all later times are counted with it from the header's.

    Raises:
        LedgerError: the file holds something already, or another writer has it open.
    """

    def __init__(
        self,
        path: Path,
        *,
        run: str,
        cell: str,
        writer: str,
        started_at: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.cell = cell
        self._lock = threading.Lock()
        self._hash = hashlib.sha256()
        self._records = 0
        self._broken = False
        self._journalled: Exception | None = None
        self._clock = clock
        self._begun = clock()
        self._started_at = started_at or datetime.now(UTC)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd: int | None = os.open(path, _FLAGS, _MODE)
        try:
            self._claim(self._fd)
            self._append(encode(Header(run=run, cell=cell, writer=writer, started_at=self._started_at)))
        except BaseException:
            self.abandon()
            raise

    def write(self, record: Body) -> None:
        """Append one record, with the time of writing; the record that is passed stays as it is.

        Raises:
            LedgerError: the line did not reach the file whole, or the writer is closed or broken.
            pydantic.ValidationError: the record holds what strict JSON cannot; nothing was written.
        """
        with self._lock:
            self._append(encode(record.model_copy(update={"at": self._now()})))

    @contextmanager
    def journal(
        self, stage: str, sample_index: int | None = None, driver_events: list[str] | None = None
    ) -> Iterator[None]:
        """Whatever fails inside is written down *before* it is raised again, so that no layer above can swallow it.

        An `InfrastructureError` becomes an infra record, any other exception a verification error of this stage
        (a `VerificationError` keeps the stage that it names itself). Cancellation and interrupts are not failures of
        a check: they leave no record, and the sample counts as unfinished. Blocks may be nested: an exception is
        written once. `driver_events` is read when the failure happens: pass the list that the driver appends to.
        """
        try:
            yield
        except Exception as error:
            if error is not self._journalled:
                self._journalled = error
                self.write(failure_record(error, stage=stage, sample_index=sample_index, driver_events=driver_events))
            raise

    def close(self) -> None:
        """Write the trailer, flush to the disk and close. A second call does nothing; a broken writer adds nothing."""
        with self._lock:
            if self._fd is None:
                return
            try:
                if not self._broken:
                    trailer = Trailer(records=self._records, sha256=self._hash.hexdigest(), ended_at=self._now())
                    self._emit(encode(trailer))
                    os.fsync(self._fd)
            finally:
                self._release()

    def abandon(self) -> None:
        """Close without a trailer: the ledger stays visibly unfinished."""
        with self._lock:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _claim(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerError(errno.EBUSY, "another writer has this ledger open", str(self.path)) from None
        except OSError as error:
            # Some network file systems have no locks; the size check below still refuses a used file.
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
                raise
        if os.fstat(fd).st_size:
            raise LedgerError(
                errno.EEXIST, "this ledger was begun before; a writer starts its own file", str(self.path)
            )

    def _now(self) -> datetime:
        return self._started_at + timedelta(seconds=self._clock() - self._begun)

    def _append(self, line: bytes) -> None:
        self._emit(line)
        self._hash.update(line)
        self._records += 1

    def _emit(self, line: bytes) -> None:
        if self._fd is None:
            raise LedgerError(errno.EBADF, "the ledger is closed; the record was not written", str(self.path))
        if self._broken:
            raise LedgerError(errno.EIO, "an earlier write failed; the record was not written", str(self.path))
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            self._broken = True
            raise LedgerError(error.errno, error.strerror, str(self.path)) from error
        if written != len(line):
            self._broken = True
            raise LedgerError(errno.EIO, f"short write: {written} of {len(line)} bytes", str(self.path))

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def failure_record(
    error: Exception, *, stage: str, sample_index: int | None, driver_events: list[str] | None = None
) -> VerificationErrorRecord | InfraRecord:
    """The ledger's form of a failure: `infra` for an InfrastructureError or a full disk, else `verification_error`.

    Stage and service are the error's own where it names one (`service` is what some infrastructure errors carry).
    """
    if isinstance(error, InfrastructureError):
        service = getattr(error, "service", stage)
        return InfraRecord(sample_index=sample_index, service=str(service), message=str(error))
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        # The verifier's own files: what it talks to over the network breaks as an InfrastructureError.
        said = f"the verifier's own machine failed it: {type(error).__name__}: {error}"
        return InfraRecord(sample_index=sample_index, service="runner", message=said)
    message = str(error)
    if isinstance(error, VerificationError):
        stage, message = error.stage, error.message
    return VerificationErrorRecord(
        sample_index=sample_index,
        verification_error=ErrorBody(stage=stage, type=type(error).__name__, message=message),
        model_incomplete=isinstance(error, ModelIncompleteError),
        driver_events=list(driver_events or []),
    )
