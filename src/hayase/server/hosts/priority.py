"""The priority of what processes records, beside what answers requests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import threading

_SHORT_NS = 200_000
_USUAL_NS = 0
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
"""Of sched_setattr(2): size, policy, flags, nice, priority, runtime, deadline, period."""


def shorten_slices() -> None:
    """Let the calling thread, and all threads that it starts, run soon whenever they have something to do.

    A thread with short slices goes before those with longer ones when it wakes up, and gets no more of the processor
    than they do. Linux has that since 6.12; elsewhere nothing changes.
    """
    _set_slice(_SHORT_NS)


def lower_priority(nice: int) -> None:
    """Give the calling thread, and all threads and processes that it starts, less of a busy processor.

    On Linux each thread has a priority of its own; elsewhere it is the whole process that has one, and it stays.

    Args:
        nice: 0 to 19. A thread at 5 weighs a third of one at 0, at 10 a tenth, at 19 a seventieth. What is already
            lower stays.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):  # it may be forbidden, and is lower already where the process is
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(nice, os.getpriority(os.PRIO_PROCESS, thread)))
    _set_slice(_USUAL_NS)


def _set_slice(slice_ns: int) -> None:
    """How long the calling thread runs before others that wait; 0: as the system has it. It may be refused."""
    number = _SCHED_SETATTR.get(platform.machine())
    if not sys.platform.startswith("linux") or number is None:
        return
    thread = threading.get_native_id()
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    policy = os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, policy, 0, nice, 0, slice_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, attributes, 0)
