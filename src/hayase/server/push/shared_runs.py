"""Runs of push queries that several clients have asked for, each with a buffer of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from hayase.core.records import TopicPartition
from hayase.log.protocol import OutputBatch
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.tails import LogTails
from hayase.server.push.shareable import SharedQuery
from hayase.server.push.shown import STATE_BYTES_MAX, EnoughError, ShownRows, ShownTopology


class RunListener(Protocol):
    """One client of a shared run; called in the run's thread."""

    def has_room(self, rows: ShownRows) -> bool:
        """Whether `add` would not wait."""
        ...

    def add(self, rows: ShownRows) -> bool:
        """Take rows; `False` if nothing more is wanted."""
        ...

    def go_on_alone(self, start: Mapping[TopicPartition, int]) -> None:
        """Have a run of its own from these offsets on, because the others do not wait for it."""
        ...

    def fail(self, error: BaseException) -> None:
        """The run has failed."""
        ...


class SharedRun:
    """One run, whose rows all of its listeners get.

    It waits for no listener: one whose buffer is full goes on alone, where the rows that it has end.

    Args:
        query: what the listeners have in common.
        shown: what runs.
        settings: of Hayase.
        tails: of the log.
        retire: called in the run's thread; takes it out of the runs that queries join, if it has no listeners.

    Raises:
        HayaseError: the query cannot run.
    """

    def __init__(
        self,
        query: SharedQuery,
        shown: ShownTopology,
        settings: Mapping[str, object],
        tails: LogTails,
        retire: Callable[[SharedRun], bool],
    ) -> None:
        self._shared = query
        self._shown = shown
        self._retire = retire
        self._listeners: list[RunListener] = []
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        with self._lock:  # what the run's thread calls waits until the query is known here
            self._query = LocalQuery(
                shown.topology, settings, tails, self._hand_over, shown.reset,
                state_bytes_max=STATE_BYTES_MAX, on_end=self._ended, name="shared-push",
            )  # fmt: skip

    @property
    def has_listeners(self) -> bool:
        """Whether a client wants its rows."""
        return bool(self._listeners)

    def can_serve(self, query: SharedQuery) -> bool:
        """Whether a query that begins now gets its rows from here.

        Not from a run that is behind: it still has to process what was written long before.
        """
        return self._failure is None and not self._query.is_behind and self._shared == query

    def add(self, listener: RunListener) -> None:
        """Give a listener all rows from the next epoch on: of what is written from now on, and what waits."""
        with self._lock:
            self._listeners.append(listener)
            failure = self._failure
        if failure is not None:
            listener.fail(failure)

    def remove(self, listener: RunListener) -> None:
        """Give a listener nothing more."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def close(self) -> None:
        """End the run."""
        self._query.close()

    def _hand_over(self, written: list[OutputBatch]) -> None:
        with self._lock:
            listeners = list(self._listeners)
            before = self._query.positions()
        rows = self._shown.rows(written)
        for listener in listeners:
            if not listener.has_room(rows):
                self.remove(listener)
                listener.go_on_alone(before)
            elif not listener.add(rows):
                self.remove(listener)
        if not self.has_listeners and self._retire(self):
            raise EnoughError

    def _ended(self, error: BaseException) -> None:
        with self._lock:
            self._failure = error
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.fail(error)
        self._retire(self)
        self._query.close()


class SharedRuns:
    """The shared runs of a server. Thread-safe."""

    def __init__(self) -> None:
        self._runs: list[SharedRun] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._runs)

    def join(
        self,
        query: SharedQuery,
        listener: RunListener,
        shown: ShownTopology,
        settings: Mapping[str, object],
        tails: LogTails,
    ) -> None:
        """Have a listener get the rows of a query, from the run that there is, or from a new one.

        Raises:
            HayaseError: the query cannot run.
        """
        with self._lock:  # held while a run starts: queries that come at the same time share it
            run = next((run for run in self._runs if run.can_serve(query)), None)
            if run is None:
                run = SharedRun(query, shown, settings, tails, self._retire)
                self._runs.append(run)
            run.add(listener)

    def leave(self, listener: RunListener) -> None:
        """Give a listener nothing more; a run without listeners ends. Calling it again does nothing."""
        with self._lock:
            for run in self._runs:
                run.remove(listener)
            unused = [run for run in self._runs if not run.has_listeners]
            self._runs = [run for run in self._runs if run.has_listeners]
        for run in unused:
            run.close()

    def _retire(self, run: SharedRun) -> bool:
        with self._lock:
            if run.has_listeners:
                return False
            if run in self._runs:
                self._runs.remove(run)
            return True
