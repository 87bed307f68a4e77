"""This process's step, and whether it makes progress: written by the thread that works, read by a watchdog.

A sign of life is the increment of a number, so it may be given wherever something has come to its end: a batch, a
chunk, a blob.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One bundle's part of one epoch."""

    bundle: str
    epoch: int


class Steps:
    """The steps of a process, one after the other.

    Attributes:
        step: the one at work; `None` between steps.
        signs: of life, counted.
        asking: whether a log or a store is being asked, which gives up by itself.
        main: the thread that works on them.
        on_step: called with each step when it begins, and with `None` when it has ended.
    """

    __slots__ = ("asking", "main", "on_step", "signs", "step")

    def __init__(self) -> None:
        self.step: Step | None = None
        self.signs = 0
        self.asking = False
        self.main: int | None = None
        self.on_step: Callable[[Step | None], object] | None = None


STEPS = Steps()
"""Those of this process."""


def moved() -> None:
    """The step at work has made progress. Says nothing in other threads than the main one, which works on steps."""
    if threading.get_ident() == STEPS.main:
        STEPS.signs += 1


@contextmanager
def at_work(bundle: str, epoch: int) -> Iterator[None]:
    """While a bundle's part of an epoch is at work."""
    steps = STEPS
    steps.step = step = Step(bundle, epoch)
    if steps.on_step is not None:
        steps.on_step(step)
    try:
        yield
    finally:
        steps.step = None
        if steps.on_step is not None:
            steps.on_step(None)


@contextmanager
def asking() -> Iterator[None]:
    """While a log or a store is asked by calls that have timeouts of their own; each call counts as a sign of life."""
    steps = STEPS
    if threading.get_ident() != steps.main:
        yield
        return
    steps.signs += 1
    before, steps.asking = steps.asking, True
    try:
        yield
    finally:
        steps.asking = before
        steps.signs += 1


def _find_main() -> None:
    STEPS.main = threading.main_thread().ident


_find_main()
os.register_at_fork(after_in_child=_find_main)
