"""Snapshots share the ids of their history, and read as if each had all of them; a prefix that changed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from session_server.core.errors import TokenizationError
from session_server.core.policy import check_prefix
from session_server.core.tokens import Snapshot, pack
from session_server.core.turn import EngineRequest, Position, Record, Turn

ids = st.lists(st.integers(0, 2**31 - 1), max_size=5)
STORED = Snapshot(pack([1, 2])).continued(pack([3, 4, 5]))


def turn(tokens: Snapshot) -> Turn:
    record = Record(EngineRequest(b"{}", (), ()), b"{}", 0.0, 0.0, None)
    return Position(parent=None, tail=(), tail_start=0).turn(
        seq=0,
        assistant={"role": "assistant", "content": ""},
        tokens=tokens,
        completion_start=0,
        finish_reason="stop",
        response_id=None,
        record=record,
    )


@given(first=ids, steps=st.lists(st.tuples(ids, st.integers(0, 7), ids), max_size=6))
def test_a_snapshot_reads_as_the_whole_list(first: list[int], steps: list[tuple[list[int], int, list[int]]]) -> None:
    model, snapshot = first, Snapshot(pack(first))
    seen = [(model, snapshot)]
    for joint, dropped, more in steps:
        model = [*model[: max(0, len(model) - dropped)], *joint, *more]
        snapshot = snapshot.continued(pack(joint), dropped=dropped).extended(pack(more))
        seen.append((model, snapshot))
    for expected, found in seen:
        assert len(found) == len(expected)
        assert found.ids().tolist() == expected
        assert found.last == (expected[-1] if expected else None)
        assert [found.behind(start).tolist() for start in range(len(expected) + 1)] == [
            expected[start:] for start in range(len(expected) + 1)
        ]


def test_what_is_read_is_a_copy() -> None:
    STORED.ids().append(9)
    STORED.behind(3)[0] = 9
    assert STORED.ids().tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("tokens", "trim"),
    [
        (STORED.continued(pack([6])), 0),
        (STORED.continued(pack([6]), dropped=1), 1),
        # the same ids that were put together anew
        (Snapshot(pack([1, 2, 3, 4, 5, 6])), 0),
        (Snapshot(pack([1, 2, 3, 4, 9])), 1),
        (STORED.continued(pack([5, 6]), dropped=1), 0),
    ],
)
def test_what_continues_the_stored_ids_may_be_recorded(tokens: Snapshot, trim: int) -> None:
    check_prefix(turn(STORED), tokens, trim)
    check_prefix(None, tokens, trim)


@pytest.mark.parametrize(
    ("tokens", "trim", "where"),
    [
        (STORED.continued(pack([6]), dropped=1), 0, "index 4 (stored 5 of 5 tokens, new 6 of 5"),
        (STORED.continued(pack([6]), dropped=2), 1, "index 3 (stored 4 of 5 tokens, new 6 of 4"),
        (Snapshot(pack([1, 2, 9, 4, 5, 6])), 0, "index 2 (stored 3 of 5 tokens, new 9 of 6"),
        (Snapshot(pack([1, 2, 3, 4])), 0, "index 4 (stored 5 of 5 tokens, new None of 4"),
        (Snapshot(), 1, "index 0 (stored 1 of 5 tokens, new None of 0"),
    ],
)
def test_what_changes_the_stored_ids_is_refused(tokens: Snapshot, trim: int, where: str) -> None:
    with pytest.raises(TokenizationError) as refused:
        check_prefix(turn(STORED), tokens, trim)
    assert where in str(refused.value)
