"""Ledgers of several writers as one story: by clock between them, by line within them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.reader import Ledger
from runner.ledger.records import Header, NoteRecord
from runner.ledger.timeline import in_order, span

BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def ledger(name: str, seconds: list[int], *, begun: int = 0) -> Ledger:
    header = Header(run="run", cell="c", writer=name, started_at=BEGUN + timedelta(seconds=begun))
    records = [NoteRecord(message=f"{name}{i}", at=BEGUN + timedelta(seconds=s)) for i, s in enumerate(seconds)]
    return Ledger(name, header, list(records))


def told(*ledgers: Ledger) -> list[str]:
    return [record.message for record in in_order(ledgers) if isinstance(record, NoteRecord)]


def test_records_of_two_writers_come_in_the_order_of_their_clocks() -> None:
    assert told(ledger("a", [1, 4, 9]), ledger("b", [2, 4, 5])) == ["a0", "b0", "a1", "b1", "b2", "a2"]


def test_a_clock_that_ran_backwards_does_not_turn_a_writer_s_own_lines_around() -> None:
    assert told(ledger("a", [5, 1]), ledger("b", [3, 6])) == ["b0", "a0", "a1", "b1"]


def test_the_span_goes_from_the_first_header_to_the_last_line() -> None:
    assert span([ledger("a", [4], begun=2), ledger("b", [3], begun=1)]) == (
        BEGUN + timedelta(seconds=1),
        BEGUN + timedelta(seconds=4),
    )
    assert span([]) is None
    assert span([Ledger("without a header")]) is None


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=5))
def test_nothing_is_lost_or_doubled_and_each_writer_keeps_its_order(clocks: list[list[int]]) -> None:
    ledgers = [ledger(f"{index}:", seconds) for index, seconds in enumerate(clocks)]
    story = told(*ledgers)
    for index, seconds in enumerate(clocks):
        assert [m for m in story if m.startswith(f"{index}:")] == [f"{index}:{n}" for n in range(len(seconds))]
    assert len(story) == sum(map(len, clocks))
