"""Several ledgers of one cell or lease as one story: records of all writers, by the time at which they were written.

Within one ledger the order of the lines is kept whatever the clocks say; between ledgers the clocks decide, which are
those of one machine in one run. A ledger without its header has no place in time and gives nothing. Nothing is judged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import datetime

from runner.ledger.reader import Ledger
from runner.ledger.records import Body


def in_order(ledgers: Sequence[Ledger]) -> list[Body]:
    """The records of all ledgers in the order in which they were written; ties keep the order of the ledgers."""
    return [record for _, _, _, record in heapq.merge(*(_keyed(index, ledger) for index, ledger in enumerate(ledgers)))]


def span(ledgers: Sequence[Ledger]) -> tuple[datetime, datetime] | None:
    """From the first header to the last line of all ledgers that have a header, or None."""
    spans = [found for ledger in ledgers if (found := ledger.span)]
    return (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None


def _keyed(index: int, ledger: Ledger) -> Iterator[tuple[datetime, int, int, Body]]:
    """Sort keys that never fall within one ledger. (index, line) is unique, so that records are never compared."""
    if ledger.header is None:
        return
    latest = ledger.header.started_at
    for line, record in enumerate(ledger.records):
        latest = max(latest, record.at or latest)
        yield latest, index, line, record
