"""How long the work for one query may still take: what can take long asks for it, and gives up in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNTIL_S: ContextVar[float | None] = ContextVar("work_until_s", default=None)
_AT_LEAST_S = 0.001


@contextmanager
def work_limited(seconds: float) -> Iterator[None]:
    """Work in this block, in this thread, is to end within so many seconds."""
    token = _UNTIL_S.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _UNTIL_S.reset(token)


def is_over() -> bool:
    """Whether the time has passed."""
    until_s = _UNTIL_S.get()
    return until_s is not None and time.monotonic() > until_s


def at_most(seconds: float) -> float:
    """So many seconds, or what is left if that is less; a little always is."""
    until_s = _UNTIL_S.get()
    return seconds if until_s is None else min(seconds, max(until_s - time.monotonic(), _AT_LEAST_S))
