"""Group commit: writes that threads ask for while another commits share the next commit, and its fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import lmdb

from hayase.log.embedded.tables import Tables

T = TypeVar("T")
Work = Callable[[Tables], T]
"""Takes the transaction's tables; may run more than once, so it has no effects but on them."""
Transaction = Callable[[Callable[[Tables], None]], None]
"""Runs a function in one write transaction and commits, or writes nothing if it raises."""


class _Job:
    def __init__(self, work: Work[None]) -> None:
        self.work = work
        self.done = False
        self.error: BaseException | None = None

    def run(self, tables: Tables) -> None:
        """Run the work; what it raises before its first write is its own affair."""
        self.error = None
        before = _writes(tables)
        try:
            self.work(tables)
        except lmdb.Error:  # of the transaction as a whole: the map or the disk is full
            raise
        except Exception as error:
            if _writes(tables) != before:
                raise _HalfWrittenError(self, error) from error
            self.error = error


class _HalfWrittenError(Exception):
    """A job failed behind its first write, so that its transaction must not be committed."""

    def __init__(self, job: _Job, error: Exception) -> None:
        super().__init__(str(error))
        self.job = job
        self.error = error


class GroupCommit:
    """Brings the writes of a process's threads into few transactions. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[_Job] = []
        self._lock = threading.Lock()
        self._committing = threading.Lock()

    def write(self, work: Work[T], transaction: Transaction) -> T:
        """Run `work` in a transaction, perhaps with others', and return its result after the commit.

        Args:
            work: what to write. All of it is committed, or nothing if it raises.
            transaction: runs a function in one write transaction and commits; may run it again from the start.

        Raises:
            Exception: what `work` raised; the others' writes are not affected. What `transaction` raised.
        """
        results: list[T] = []

        def keep(tables: Tables) -> None:
            results[:] = [work(tables)]

        job = _Job(keep)
        with self._lock:
            self._waiting.append(job)
        with self._committing:
            if not job.done:
                with self._lock:
                    jobs, self._waiting = self._waiting, []
                self._commit(jobs, transaction, job)
        if job.error is not None:
            raise job.error
        return results[0]

    def _commit(self, jobs: list[_Job], transaction: Transaction, mine: _Job) -> None:
        """Commit the jobs; without those that fail half way, each of which aborts a transaction of its own making."""

        def run_all(tables: Tables) -> None:
            for job in jobs:
                job.run(tables)

        while jobs:
            try:
                transaction(run_all)
            except _HalfWrittenError as half:
                half.job.error = half.error
                half.job.done = True
                jobs = [job for job in jobs if job is not half.job]
                continue
            except Exception as error:  # nothing was written: every thread that waits must hear of it
                for job in jobs:
                    job.error = error
            except BaseException:  # this thread is interrupted; another that waits takes over
                with self._lock:
                    self._waiting = [job for job in jobs if job is not mine] + self._waiting
                raise
            for job in jobs:
                job.done = True
            return


def _writes(tables: object) -> int:
    """How often the transaction has written so far."""
    return getattr(tables, "writes", 0)
