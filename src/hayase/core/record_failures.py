"""Failures of single records that stop nothing: code of a topology reports them to the task that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Collector = Callable[[str, str, BaseException, object], None]
"""Takes a step, what failed, the error, and the row (`None`: not known)."""
_COLLECTOR: ContextVar[Collector | None] = ContextVar("hayase_record_failures", default=None)


def report_failure(step: str, what: str, error: BaseException, row: object = None) -> None:
    """Tell the task at work, if one is, what failed for a record."""
    collector = _COLLECTOR.get()
    if collector is not None:
        collector(step, what, error, row)


@contextmanager
def collecting_failures(collector: Collector | None) -> Iterator[None]:
    """Have the failures that are reported inside go to a collector."""
    token = _COLLECTOR.set(collector)
    try:
        yield
    finally:
        _COLLECTOR.reset(token)
