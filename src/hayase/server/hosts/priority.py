"""The priority of what processes records, beside what answers requests."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

_NICE = 5
"""A third of the weight that threads at 0 have: a request waits for no worker, and workers have all that is left."""


def lower_priority() -> None:
    """Give the calling thread, and all threads and processes that it starts, less of a busy processor.

    On Linux each thread has a priority of its own; elsewhere it is the whole process that has one, and it stays.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError):  # it may be forbidden, and is lower already where the process is
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
