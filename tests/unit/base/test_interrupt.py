"""The first signal ends the work; none ends the clean-up."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from runner.base.interrupt import finishing, first_signal_interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def send(number: signal.Signals) -> None:
    """As from outside; handlers run before the next line does."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_interrupts_and_later_ones_only_get_an_answer(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with first_signal_interrupts():
        with pytest.raises(KeyboardInterrupt, match=number.name):
            send(number)
        send(signal.SIGTERM)
        send(signal.SIGINT)
    assert capsys.readouterr().err.count("still collecting") == 2


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_clean_up_waits_for_its_end(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    done = []
    with first_signal_interrupts():
        with pytest.raises(KeyboardInterrupt, match=number.name), finishing():
            with finishing():
                send(number)
                done.append("inner")
            send(number)
            done.append("outer")
        with finishing():
            done.append("another")
    assert done == ["inner", "outer", "another"]
    assert capsys.readouterr().err.count("still collecting") == 2


def test_a_clean_up_in_another_thread_does_not_hold_back_the_main_one() -> None:
    inside, leave = threading.Event(), threading.Event()

    def clean() -> None:
        with finishing():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=clean)
    thread.start()
    inside.wait()
    with first_signal_interrupts(), pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)
    leave.set()
    thread.join()


def test_handlers_are_restored_and_the_next_run_is_interrupted_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    for _ in range(2):
        with first_signal_interrupts(), pytest.raises(KeyboardInterrupt):
            send(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
