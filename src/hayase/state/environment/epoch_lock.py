"""Lets the one that moves several environments from epoch to epoch and those who read them at one epoch take turns."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hayase.core.private_files import open_file

_TURN = "TURN"
_GATE = "GATE"
_POLL_S = 0.002


class EpochLock:
    """Two locked files in a folder. The system lets go of them when a process ends.

    The mover is alone while it is in; readers are in together. The first to ask goes in first, so that
    neither keeps the other out forever.

    Args:
        folder: where the files are.
        clock: seconds, monotonic.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock

    @contextmanager
    def moving(self) -> Iterator[None]:
        """For the mover; waits until no reader is in."""
        with self._open(_GATE) as gate:
            with self._open(_TURN) as turn:
                fcntl.flock(turn, fcntl.LOCK_EX)
                fcntl.flock(gate, fcntl.LOCK_EX)
            yield

    @contextmanager
    def reading(self, timeout_s: float) -> Iterator[bool]:
        """For a reader; `False` if the mover was not out in time."""
        deadline = self._clock() + timeout_s
        with self._open(_GATE) as gate:
            with self._open(_TURN) as turn:
                entered = self._until(turn, fcntl.LOCK_EX, deadline) and self._until(gate, fcntl.LOCK_SH, deadline)
            yield entered

    def _until(self, descriptor: int, kind: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if self._clock() > deadline:
                    return False
                time.sleep(_POLL_S)

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        descriptor = open_file(self._folder / name, os.O_RDWR)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
