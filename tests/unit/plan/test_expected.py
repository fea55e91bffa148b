"""Shards and leases are balanced by expected time, the same way on every machine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.plan.expected import balanced, lease_seconds
from tests.unit.plan.test_build import plan

TIMES = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0.1, 1000), min_size=1, max_size=12)


def _seconds(**settings: object) -> float:
    made = plan(family="qwen3", **settings)
    return lease_seconds(made.leases[0], made.cells)


def test_more_work_is_expected_to_take_longer() -> None:
    base = _seconds()
    assert base > 0
    assert _seconds(samples=40) > base
    assert _seconds(cycles=9) > base
    assert _seconds(ready_timeout=4000) > base
    assert _seconds(lanes="v1-openai") < base


@given(TIMES, st.integers(1, 12))
def test_every_name_is_dealt_once_and_no_part_is_empty_without_need(seconds: dict[str, float], parts: int) -> None:
    dealt = balanced(seconds, parts)
    assert sorted(name for part in dealt for name in part) == sorted(seconds)
    assert len(dealt) == parts
    assert sum(1 for part in dealt if part) == min(parts, len(seconds))
    assert dealt == balanced(dict(seconds), parts)


@given(TIMES, st.integers(1, 6))
def test_the_fullest_part_exceeds_the_emptiest_by_one_name_at_most(seconds: dict[str, float], parts: int) -> None:
    """Longest first to the least loaded: a part got its last name when it was the least loaded of all."""
    loads = [[seconds[name] for name in part] for part in balanced(seconds, parts)]
    least = min(sum(load) for load in loads)
    assert all(sum(load) - load[-1] <= least + 1e-6 for load in loads if load)


def test_a_long_family_does_not_share_its_shard_with_another_long_one() -> None:
    assert balanced({"a": 10, "b": 9, "c": 1, "d": 1}, 2) == [["a", "d"], ["b", "c"]]
