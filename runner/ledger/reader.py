"""Reads a ledger back and says what is wrong with it, as data: a damaged ledger is evidence, not an exception.

The reader repairs nothing and guesses nothing. A last line that was torn by a kill is left out and reported; a line
that is not a record of this schema, a trailer that does not fit and anything after the trailer are reported as well.
What a problem means for the verdict is the gate's business.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import orjson
from pydantic import ValidationError

from runner.ledger.records import RECORD_ADAPTER, SCHEMA_VERSION, Body, Header, Trailer


class ProblemKind(StrEnum):
    """What can be wrong with a ledger."""

    UNREADABLE = "unreadable"
    EMPTY = "empty"
    NO_HEADER = "no-header"
    SECOND_HEADER = "second-header"
    SCHEMA = "schema"
    BAD_LINE = "bad-line"
    TORN_LINE = "torn-line"
    NO_TRAILER = "no-trailer"
    WRONG_COUNT = "wrong-count"
    WRONG_HASH = "wrong-hash"
    AFTER_TRAILER = "after-trailer"
    CLOCK = "clock"
    LOST = "lost"


UNFINISHED = frozenset({ProblemKind.EMPTY, ProblemKind.TORN_LINE, ProblemKind.NO_TRAILER, ProblemKind.LOST})
"""What is not there: what a killed writer leaves behind, and evidence beside the ledger that did not travel (`LOST`).

The whole lines that are there are sound; everything else is damage.
"""


@dataclass(frozen=True)
class LedgerProblem:
    """One thing that is wrong. `line` counts from 1, None where no line is meant."""

    kind: ProblemKind
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.message} (line {self.line})" if self.line else self.message


@dataclass(frozen=True)
class Ledger:
    """What one file says."""

    path: str
    header: Header | None = None
    records: list[Body] = field(default_factory=list)
    trailer: Trailer | None = None
    problems: list[LedgerProblem] = field(default_factory=list)

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """From the header to the last line that is there; None without a header."""
        if self.header is None:
            return None
        times = [record.at for record in self.records if record.at is not None]
        last = self.trailer.ended_at if self.trailer else times[-1] if times else self.header.started_at
        return self.header.started_at, last

    @property
    def damaged(self) -> list[LedgerProblem]:
        """Problems after which nothing in this file is believed."""
        return [problem for problem in self.problems if problem.kind not in UNFINISHED]

    @property
    def complete(self) -> bool:
        """Header, whole lines and a trailer that fits."""
        return not self.problems


def read_ledger(path: Path) -> Ledger:
    """The ledger in this file. A file that cannot be read is a ledger with a problem."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = LedgerProblem(ProblemKind.UNREADABLE, f"cannot be read: {error.strerror or error}")
        return Ledger(str(path), problems=[problem])
    return parse_ledger(data, path=str(path))


def parse_ledger(data: bytes, *, path: str) -> Ledger:
    """As `read_ledger`, from bytes. `path` is for messages only."""
    if not data:
        return Ledger(path, problems=[LedgerProblem(ProblemKind.EMPTY, "the ledger is empty")])
    *lines, rest = data.split(b"\n")
    problems = []
    header, wrong = _header(lines[0]) if lines else (None, None)
    if wrong:
        problems.append(wrong)
        if wrong.kind is ProblemKind.SCHEMA:
            return Ledger(path, problems=problems)
    records: list[Body] = []
    trailer: Trailer | None = None
    clock = header.started_at if header else None
    offset = 0
    for number, line in enumerate(lines, start=1):
        if trailer:
            problems.append(LedgerProblem(ProblemKind.AFTER_TRAILER, "something was written after the trailer", number))
            break
        record = _record(line)
        if isinstance(record, Trailer):
            trailer = record
            problems += _trailer_problems(record, line, number, data[:offset])
            clock = _tick(clock, record.ended_at, number, problems)
        elif isinstance(record, Header):
            if number > 1:
                problems.append(LedgerProblem(ProblemKind.SECOND_HEADER, "a second header", number))
        elif record is not None and record.at is not None:
            records.append(record)
            clock = _tick(clock, record.at, number, problems)
        elif number > 1 or header:
            problems.append(LedgerProblem(ProblemKind.BAD_LINE, "not a record of this schema", number))
        offset += len(line) + 1
    if rest:
        kind = ProblemKind.AFTER_TRAILER if trailer else ProblemKind.TORN_LINE
        said = "something was written after the trailer" if trailer else "the last line is torn"
        problems.append(LedgerProblem(kind, said, len(lines) + 1))
    if not trailer:
        problems.append(
            LedgerProblem(ProblemKind.NO_TRAILER, "the trailer is missing: the writer did not get to its end")
        )
    return Ledger(path, header, records, trailer, problems)


def _header(line: bytes) -> tuple[Header | None, LedgerProblem | None]:
    missing = LedgerProblem(ProblemKind.NO_HEADER, "the first line is not a header", 1)
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None, missing
    if not isinstance(document, dict) or document.get("kind") != "header":
        return None, missing
    version = document.get("schema_version")
    if not isinstance(version, int) or version != SCHEMA_VERSION:
        said = f"schema version {version!r}; this reader knows {SCHEMA_VERSION}"
        return None, LedgerProblem(ProblemKind.SCHEMA, said, 1)
    record = _record(line)
    return (record, None) if isinstance(record, Header) else (None, missing)


def _record(line: bytes) -> Body | Header | Trailer | None:
    try:
        return RECORD_ADAPTER.validate_json(line)
    except ValidationError:
        return None


def _tick(before: datetime | None, now: datetime, number: int, problems: list[LedgerProblem]) -> datetime:
    """A writer's clock never runs backwards: a line that is older than the one before it was moved."""
    if before is not None and now < before:
        said = f"written at {now:%H:%M:%S.%f}, before the line above it ({before:%H:%M:%S.%f}): lines were moved"
        problems.append(LedgerProblem(ProblemKind.CLOCK, said, number))
        return before
    return now


def _trailer_problems(trailer: Trailer, line: bytes, number: int, preceding: bytes) -> list[LedgerProblem]:
    problems = []
    if line != trailer.model_dump_json().encode():
        # No hash covers the trailer itself, so it has to be exactly what a writer writes.
        problems.append(LedgerProblem(ProblemKind.BAD_LINE, "the trailer was changed", number))
    if trailer.records != number - 1:
        said = f"the trailer counts {trailer.records} lines before it, there are {number - 1}"
        problems.append(LedgerProblem(ProblemKind.WRONG_COUNT, said, number))
    if trailer.sha256 != hashlib.sha256(preceding).hexdigest():
        said = "the lines before the trailer are not those that were written: their sha256 differs"
        problems.append(LedgerProblem(ProblemKind.WRONG_HASH, said, number))
    return problems
