"""Processes that end with the one that started them, whatever they are at."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0


def end_with_forker() -> None:
    """Have every child that this process forks from now on be killed when this process ends.

    Call it in the main thread.

    What a child forks itself is not touched. On Linux the kernel does that, even while the child is inside of a call
    that never returns. It counts from the end of the thread that forks, so this is not for a process that forks in
    threads. Elsewhere a thread of the child looks once a second.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None
    forker = forks = os.getpid()

    def before_fork() -> None:
        nonlocal forks
        forks = os.getpid()

    def after_fork() -> None:
        if forks != forker:
            return
        if prctl is None:
            watch_parent(forker)
        else:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != forker:  # it ended before the kernel knew of this process
                os._exit(1)

    os.register_at_fork(before=before_fork, after_in_child=after_fork)


def watch_parent(parent: int | None = None) -> None:
    """End this process within a second or so after its parent has ended; what it does then is not finished.

    Args:
        parent: the process id of the parent, if this process may have lost it already.
    """
    expected = os.getppid() if parent is None else parent

    def look() -> None:
        while os.getppid() == expected:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, name="hayase-parent", daemon=True).start()
