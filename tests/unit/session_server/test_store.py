"""Expiry of sessions, by a clock that the test turns."""

from __future__ import annotations

import pytest
from session_server.core.errors import LimitError, NotFoundError
from session_server.core.linear import Line
from session_server.core.session import State
from session_server.core.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    def make() -> State:
        return Line(append_roles=frozenset(), max_turns=8)

    return Store(make, exclusive=True, max_sessions=2, idle_seconds=10.0, clock=clock)


def test_an_idle_session_is_gone_the_moment_it_has_expired(store: Store, clock: Clock) -> None:
    session = store.create()
    clock.now += 10.0
    assert store.get(session.id) is session
    clock.now += 10.1
    with pytest.raises(NotFoundError):
        store.get(session.id)
    assert store.expire() == 1
    assert len(store) == 0


def test_use_keeps_a_session_alive(store: Store, clock: Clock) -> None:
    session = store.create()
    for _ in range(5):
        clock.now += 9.0
        store.get(session.id)
    assert store.expire() == 0


def test_a_session_with_a_turn_in_flight_does_not_expire(store: Store, clock: Clock) -> None:
    session = store.create()
    with session.turn(lambda: None):
        clock.now += 1000.0
        assert store.expire() == 0
        assert store.get(session.id) is session


def test_the_limit_makes_room_by_removing_expired_sessions(store: Store, clock: Clock) -> None:
    store.create()
    store.create()
    with pytest.raises(LimitError):
        store.create()
    clock.now += 11.0
    store.create()
    assert len(store) == 1


def test_ids_are_not_reused_and_deleted_sessions_are_closed(store: Store) -> None:
    session = store.create()
    withdrawn: list[bool] = []
    with session.turn(lambda: withdrawn.append(True)):
        store.delete(session.id)
    assert withdrawn == [True]
    assert session.closed
    with pytest.raises(NotFoundError), session.turn(lambda: None):
        pass
