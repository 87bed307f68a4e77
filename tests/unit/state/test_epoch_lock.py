"""Movers of several states from epoch to epoch, and readers of one epoch, take turns."""

from __future__ import annotations

import threading
from pathlib import Path

from hayase.state.environment.epoch_lock import EpochLock


def test_readers_are_in_together(tmp_path: Path) -> None:
    with EpochLock(tmp_path).reading(0) as first, EpochLock(tmp_path).reading(0) as second:
        assert first and second


def test_a_reader_that_waits_longer_than_it_may_is_told(tmp_path: Path) -> None:
    with EpochLock(tmp_path).moving(), EpochLock(tmp_path).reading(0) as entered:
        assert not entered


def test_the_mover_waits_for_readers_and_then_goes_before_those_that_came_later(tmp_path: Path) -> None:
    moved = threading.Event()

    def move() -> None:
        with EpochLock(tmp_path).moving():
            moved.set()

    with EpochLock(tmp_path).reading(0) as entered:
        assert entered
        mover = threading.Thread(target=move)
        mover.start()
        later = True
        while later:  # until the mover has its turn: then no new reader comes in
            with EpochLock(tmp_path).reading(0) as later:
                pass
        assert not moved.is_set()
    mover.join()
    assert moved.is_set()
    with EpochLock(tmp_path).reading(0) as entered:
        assert entered
