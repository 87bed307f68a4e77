"""An event that a handler sets wherever it interrupts a wait."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest

from hayase.core.signal_event import SignalEvent


@pytest.mark.timeout(120)
def test_a_handler_may_set_it_at_any_moment_of_a_wait() -> None:
    chosen, before = random.Random(1), signal.getsignal(signal.SIGALRM)
    try:
        for _ in range(300):
            event = SignalEvent()
            signal.signal(signal.SIGALRM, lambda *_, event=event: event.set())
            signal.setitimer(signal.ITIMER_REAL, chosen.uniform(2e-6, 6e-5))
            while not event.wait(1e-6):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_thread_sets_it_for_all_that_wait_now_and_later() -> None:
    event, woken = SignalEvent(), []
    waiting = [threading.Thread(target=lambda: woken.append(event.wait(60))) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert not event.wait(0.01)
    event.set()
    event.set()
    for thread in waiting:
        thread.join()
    assert (woken, event.wait(), event.is_set()) == ([True] * 3, True, True)


def test_a_wait_ends_in_time() -> None:
    begun = time.monotonic()
    assert not SignalEvent().wait(0.05)
    assert time.monotonic() - begun >= 0.05


@pytest.mark.timeout(30)
def test_a_signal_that_interrupts_another_thread_ends_the_wait_of_the_main_one() -> None:
    event, before = SignalEvent(), signal.getsignal(signal.SIGUSR1)

    def interrupted() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    try:
        signal.signal(signal.SIGUSR1, lambda *_: event.set())
        threading.Thread(target=interrupted).start()
        assert event.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
