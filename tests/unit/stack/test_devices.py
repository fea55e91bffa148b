"""Devices are locked all or none, leases start in order as devices get free, and an interrupt ends them all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.cli.leases import in_order
from runner.plan.model import PlannedLease
from runner.stack.devices import Devices, Stop, run_packed
from tests.unit.plan.test_build import plan


def _lease(name: str, gpus: int) -> PlannedLease:
    (lease,) = plan(family="qwen3", engine="gpu").leases
    return lease.model_copy(update={"family": name, "gpus": gpus})


def test_a_lease_gets_all_of_its_devices_or_none(tmp_path: Path) -> None:
    ours, theirs = Devices(["0", "1", "2"], tmp_path), Devices(["0", "1", "2"], tmp_path)
    first = ours.take(2)
    assert first is not None
    assert first.names == ("0", "1")
    assert theirs.take(2) is None, "one device is left, and a lease of two must not hold it"
    single = theirs.take(1)
    assert single is not None
    assert single.names == ("2",)
    first.release()
    first.release()
    again = theirs.take(2)
    assert again is not None
    assert again.names == ("0", "1")
    single.release()
    again.release()


def test_a_device_is_locked_for_as_long_as_it_is_taken(tmp_path: Path) -> None:
    devices = Devices(["0"], tmp_path)
    assert not devices.locked("0")
    taken = devices.take(1)
    assert taken is not None
    assert Devices(["0"], tmp_path).locked("0")
    taken.release()
    assert not devices.locked("0")


def test_a_lease_that_can_never_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done: list[str] = []
    leases = [_lease("fits", 1), _lease("huge", 3)]
    with pytest.raises(InfrastructureError, match="huge needs 3 GPUs, and 2 can be used"):
        run_packed(leases, Devices(["0", "1"], tmp_path), lambda lease, devices, stop: done.append(lease.family))
    assert done == []


def test_a_run_waits_for_devices_of_another_run_and_says_so_once(tmp_path: Path) -> None:
    other = Devices(["0"], tmp_path).take(1)
    assert other is not None
    said: list[str] = []
    done: list[str] = []

    def waiting(why: str) -> None:
        said.append(why)
        other.release()

    run_packed(
        [_lease("one", 1)],
        Devices(["0"], tmp_path),
        lambda lease, devices, stop: done.append(lease.family),
        waiting=waiting,
    )
    assert done == ["one"]
    assert len(said) == 1
    assert "another run holds" in said[0]


def test_runs_share_devices_and_no_device_is_used_twice_at_once(tmp_path: Path) -> None:
    in_use: set[str] = set()
    most = 0
    guard = threading.Lock()
    done: list[str] = []
    pair = threading.Barrier(2, timeout=30)

    def work(lease: PlannedLease, devices: Sequence[str], stop: Stop) -> None:
        nonlocal most
        with guard:
            assert not in_use & set(devices)
            in_use.update(devices)
            most = max(most, len(in_use))
        if lease.gpus == 1:
            pair.wait()  # both small ones run at the same time, or this breaks
        with guard:
            in_use.difference_update(devices)
            done.append(lease.family)

    leases = [_lease("big", 2), _lease("small-a", 1), _lease("small-b", 1)]
    run_packed(leases, Devices(["0", "1"], tmp_path), work)
    assert done[0] == "big"
    assert sorted(done) == ["big", "small-a", "small-b"]
    assert most == 2


@pytest.mark.parametrize("at_once", [1, 2])
def test_without_devices_the_number_at_once_is_the_bound(tmp_path: Path, at_once: int) -> None:
    running: set[str] = set()
    seen: list[int] = []
    guard = threading.Lock()
    full = threading.Barrier(at_once, timeout=30)

    def work(lease: PlannedLease, devices: Sequence[str], stop: Stop) -> None:
        with guard:
            running.add(lease.family)
            seen.append(len(running))
        full.wait()  # as many as may run do run, or this breaks
        assert devices == ()
        with guard:
            running.discard(lease.family)

    leases = [_lease(name, 0) for name in ("one", "two", "three", "four")]
    run_packed(leases, Devices((), tmp_path), work, at_once=at_once)
    assert len(seen) == 4
    assert max(seen) == at_once


def test_what_fails_in_one_lease_is_raised_after_the_others_ended(tmp_path: Path) -> None:
    done: list[str] = []

    def work(lease: PlannedLease, devices: Sequence[str], stop: Stop) -> None:
        if lease.family == "bad":
            raise ValueError("broken")
        done.append(lease.family)

    with pytest.raises(ValueError, match="broken"):
        run_packed([_lease("bad", 1), _lease("good", 1)], Devices(["0"], tmp_path), work)
    assert done == ["good"]


def test_an_interrupt_ends_waiting_leases_and_waits_for_their_clean_up(tmp_path: Path) -> None:
    cleaned: list[str] = []
    started = threading.Event()

    class Interrupted(Devices):
        """Ctrl-C arrives while the main thread looks for devices for the second lease."""

        def take(self, count: int):  # type: ignore[no-untyped-def]
            if started.wait(0 if not self.names_taken else 30):
                raise KeyboardInterrupt
            self.names_taken = True
            return super().take(count)

        names_taken = False

    def work(lease: PlannedLease, devices: Sequence[str], stop: Stop) -> None:
        started.set()
        try:
            stop.sleep(30)
        finally:
            cleaned.append(lease.family)

    devices = Interrupted(["0"], tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_packed([_lease("one", 1), _lease("two", 1)], devices, work)
    assert cleaned == ["one"]
    free = Devices(["0"], tmp_path).take(1)
    assert free is not None, "the device was let go of"
    free.release()


def test_leases_that_need_most_devices_come_first_then_the_longest() -> None:
    made = plan(family="all", engine="gpu")
    ordered = in_order(made)
    assert [lease.gpus for lease in ordered] == sorted((lease.gpus for lease in made.leases), reverse=True)
    assert {lease.family for lease in ordered} == {lease.family for lease in made.leases}
