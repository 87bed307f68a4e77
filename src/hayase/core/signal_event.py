"""An event that signal handlers may set."""

from __future__ import annotations

import os
import select
import time
import weakref

_LOOK_S = 0.25
"""Python runs a handler between two steps of the main thread. A signal that comes just before the system call of
`wait`, or to another thread, does not interrupt that call, so the call is short."""


class SignalEvent:
    """As `threading.Event`, which a handler must not set: it may have interrupted `wait` where that holds its lock.

    The handler would wait for that lock in the same thread, so forever.

    Example:
        >>> event = SignalEvent()
        >>> event.wait(0), event.set(), event.wait(), event.is_set()
        (False, None, True, True)
    """

    def __init__(self) -> None:
        self._set = False
        self._end, self._begin = os.pipe()
        os.set_blocking(self._begin, False)
        for number in (self._end, self._begin):
            weakref.finalize(self, os.close, number)

    def set(self) -> None:
        """Set it, from any thread or signal handler."""
        if not self._set:
            self._set = True
            os.write(self._begin, b"\0")

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, at most that long; whether it is."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        waiting = select.poll()
        waiting.register(self._end, select.POLLIN)
        while not self._set:
            left_s = _LOOK_S if end_s is None else end_s - time.monotonic()
            if left_s <= 0:
                break
            waiting.poll(min(left_s, _LOOK_S) * 1000)
        return self._set
