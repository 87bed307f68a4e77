"""Group commit: writes that threads ask for while another commits share the next commit, and its fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from hayase.core.errors import HayaseError

T = TypeVar("T")
Work = Callable[[Any], T]
"""Takes the transaction's tables. Raises a HayaseError only before its first write; may run more than once."""
Transaction = Callable[[Callable[[Any], None]], None]
"""Runs a function in one write transaction and commits."""


class _Job(Generic[T]):
    def __init__(self, work: Work[T]) -> None:
        self.work = work
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def run(self, tables: Any) -> None:
        self.error = None
        try:
            self.result = self.work(tables)
        except HayaseError as error:
            self.error = error


class GroupCommit:
    """Brings the writes of a process's threads into few transactions. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[_Job[Any]] = []
        self._lock = threading.Lock()
        self._committing = threading.Lock()

    def write(self, work: Work[T], transaction: Transaction) -> T:
        """Run `work` in a transaction, perhaps with others', and return its result after the commit.

        Args:
            work: what to write.
            transaction: runs a function in one write transaction and commits; may run it again from the start.

        Raises:
            HayaseError: what `work` raised; the others' writes are not affected.
        """
        job = _Job(work)
        with self._lock:
            self._waiting.append(job)
        with self._committing:
            if not job.done:
                with self._lock:
                    jobs, self._waiting = self._waiting, []
                self._commit(jobs, transaction)
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _commit(self, jobs: list[_Job[Any]], transaction: Transaction) -> None:
        def run_all(tables: Any) -> None:
            for job in jobs:
                job.run(tables)

        try:
            transaction(run_all)
        except BaseException as error:  # nothing was written: every thread that waits must hear of it
            for job in jobs:
                job.error = error
        finally:
            for job in jobs:
                job.done = True
