"""Bound on the memory of a slot's process: says when it is to let go of topologies that it has not used for long."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa

_SHARE = 0.5
"""The share that all slots together may hold, of the memory that the machine, or the container, has."""
_LOOK_S = 1.0
_PAUSE_S = 10.0
"""So long nothing more is let go of: what was, is given back bit by bit."""
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


class MemoryBound:
    """The bound of this process. Pages of files, as those of states, do not count: the system takes them back itself.

    Args:
        max_bytes: the bound.
        held: says what the process holds.
        monotonic: the clock for intervals, in seconds.
    """

    def __init__(
        self,
        max_bytes: int,
        held: Callable[[], int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_bytes = max_bytes
        self._held = held_bytes if held is None else held
        self._monotonic = monotonic
        self._next_look_s = monotonic()

    def is_exceeded(self) -> bool:
        """Whether the process holds more; looks once a second at most, and not soon after it has said so."""
        now = self._monotonic()
        if now < self._next_look_s:
            return False
        exceeded = self._held() > self.max_bytes
        self._next_look_s = now + (_PAUSE_S if exceeded else _LOOK_S)
        return exceeded


def share_of_slot(slots: int) -> int:
    """The bound where no setting gives one."""
    memory = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # no container, or "max"
        memory = min(memory, int(_CONTAINER.read_text()))
    return int(memory * _SHARE / slots)


def held_bytes() -> int:
    """What this process holds of memory, without pages of files."""
    memory = psutil.Process().memory_info()
    return memory.rss - memory.shared


def give_back() -> None:
    """Give what was freed back to the system, as far as allocators keep it."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
