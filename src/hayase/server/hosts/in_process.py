"""Queries that run in the server's process: the same tasks as on Spark, with their state in memory, and bounded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, OutputBatch
from hayase.server.hosts.failures import Failures
from hayase.server.hosts.protocol import QueryState, QueryStatus
from hayase.server.local_run.query import LocalQuery
from hayase.server.local_run.store import LocalStore
from hayase.server.local_run.tails import LogTails
from hayase.server.pull.stores import AsOf
from hayase.sql.errors import StatementError
from hayase.sql.statements.results import PersistentQuery

_LOG = logging.getLogger("hayase.server.hosts")
_WATCH_S = 0.2


@dataclass
class _Hosted:
    """A query that is to run."""

    query: PersistentQuery
    settings: Mapping[str, object]
    failures: Failures
    paused: bool
    is_held: bool = False
    local: LocalQuery | None = None
    produced: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class InProcessHost:
    """Runs queries as threads of this process (`QueryHost`).

    Their state is in memory. How far each query is, is kept in the log, at least once a second: after a restart a query
    processes what it had processed before, to have its state again, without writing anything, and then goes on. It
    writes at least once: what it wrote in the last moment before a crash is written again.

    Args:
        log: of the topics.
        tails: of that log.
        prefix: what the groups of the log that keep positions begin with.
        now_ms: the wall clock.
        retry_initial_ms: see Failures.
        retry_max_ms: see Failures.
        state_bytes_max: how much state a query may have.
    """

    def __init__(
        self,
        log: Log,
        tails: LogTails,
        prefix: str,
        now_ms: Callable[[], int],
        *,
        retry_initial_ms: int,
        retry_max_ms: int,
        state_bytes_max: int,
    ) -> None:
        self._log = log
        self._tails = tails
        self._prefix = prefix
        self._now_ms = now_ms
        self._retry_ms = retry_initial_ms, retry_max_ms
        self._state_bytes_max = state_bytes_max
        self._queries: dict[str, _Hosted] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="hayase-in-process", daemon=True)

    def start(self) -> None:
        """See `QueryHost.start`."""
        self._watcher.start()

    def run(
        self,
        query: PersistentQuery,
        settings: Mapping[str, object],
        *,
        paused: bool = False,
        problem: str | None = None,
    ) -> None:
        """See `QueryHost.run`."""
        with self._lock:
            before = self._queries.get(query.id)
            failures = Failures(self._now_ms, *self._retry_ms) if before is None else before.failures
            hosted = self._queries[query.id] = _Hosted(query, settings, failures, paused, problem is not None)
        if before is not None:
            self._end(before)
        if problem is not None:
            failures.hold(problem)
        else:
            self._begin(hosted)

    def stop(self, query_id: str) -> None:
        """See `QueryHost.stop`."""
        with self._lock:
            hosted = self._queries.pop(query_id, None)
        if hosted is not None:
            self._end(hosted)
        self.forget(query_id)

    def forget(self, query_id: str) -> None:
        """See `QueryHost.forget`."""
        for group in self._groups(query_id):
            self._log.delete_markers(group)

    def pause(self, query_id: str) -> None:
        """See `QueryHost.pause`. What the query keeps can be read meanwhile, also after a restart."""
        hosted = self._queries.get(query_id)
        if hosted is not None:
            with hosted.lock:
                hosted.paused = True
                if hosted.local is not None:
                    hosted.local.pause()

    def resume(self, query_id: str) -> None:
        """See `QueryHost.resume`."""
        hosted = self._queries.get(query_id)
        if hosted is None:
            return
        with hosted.lock:
            hosted.paused = False
            if hosted.local is not None:
                hosted.local.resume()
            elif not hosted.is_held:
                self._begin(hosted)

    def status(self, query_id: str) -> QueryStatus:
        """See `QueryHost.status`."""
        hosted = self._queries.get(query_id)
        if hosted is None:
            return QueryStatus(QueryState.UNRESPONSIVE)
        local = hosted.local
        if hosted.is_held or hosted.failures.retry_at_ms is not None or (local is not None and local.error is not None):
            state = QueryState.ERROR
        elif hosted.paused:
            state = QueryState.PAUSED
        else:
            state = QueryState.RUNNING if local is not None else QueryState.UNRESPONSIVE
        positions = None if local is None else local.positions()
        lag = self._lag(positions) if positions else None
        consumed = 0 if local is None else local.consumed
        return QueryStatus(state, tuple(hosted.failures.last), consumed, hosted.produced, positions, lag)

    def open_store(self, query_id: str, store: str, as_of: AsOf | None = None) -> LocalStore:
        """See `QueryStores.open_store`."""
        if as_of is not None:
            raise StatementError(
                "AS_OF", "AS OF: queries in the server's process have only the state of now; on Spark they keep others"
            )
        hosted = self._queries.get(query_id)
        if hosted is None or hosted.local is None or hosted.failures.retry_at_ms is not None:
            why = "" if hosted is None or not hosted.failures.last else f": {hosted.failures.last[-1].message}"
            raise StatementError("NOT_READY", f"query {query_id} does not run now{why}. Try again later")
        return LocalStore(hosted.local.run, store)

    def open_for_key(self, query_id: str, store: str) -> LocalStore:
        """See `QueryStores.open_for_key`. All partitions are at one epoch here."""
        return self.open_store(query_id, store)

    def has_processed(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all queries that run have processed the records before these offsets of the topics that they read."""
        with self._lock:
            queries = list(self._queries.values())
        return all(
            hosted.local is None
            or hosted.local.has_processed(
                {place: end for place, end in ends.items() if place.topic in hosted.query.source_topics}
            )
            for hosted in queries
        )

    def problem(self) -> str | None:
        """See `QueryHost.problem`."""
        return None

    def close(self) -> None:
        """See `QueryHost.close`."""
        self._closed.set()
        with self._lock:
            queries, self._queries = list(self._queries.values()), {}
        for hosted in queries:
            self._end(hosted)
        if self._watcher.is_alive():
            self._watcher.join()

    def _begin(self, hosted: _Hosted) -> None:
        """Start a query; a failure is noted."""
        with hosted.lock:
            hosted.failures.tried()
            try:
                hosted.local = self._local_query(hosted)
            except Exception as error:
                hosted.failures.add(error)
                unexpected = not isinstance(error, HayaseError)
                _LOG.warning("query %s cannot be started: %s", hosted.query.id, error, exc_info=unexpected)

    def _local_query(self, hosted: _Hosted) -> LocalQuery:
        query = hosted.query
        begin, done = self._groups(query.id)
        partitions = self._tails.partitions(query.source_topics)
        start = dict(self._log.group_offsets(begin))
        reset: Literal["earliest", "latest"] = (
            "earliest" if str(hosted.settings.get("auto.offset.reset")).lower() == "earliest" else "latest"
        )
        missing = [place for place in partitions if place not in start]
        if missing:
            asked = self._log.start_offsets if reset == "earliest" else self._log.end_offsets
            found = asked(missing)
            self._log.commit_group_offsets(begin, found)
            start |= found
        first = self._log.start_offsets(partitions)
        start = {place: max(start[place], first[place]) for place in partitions}
        writer = self._log.writer()

        def write(batches: list[OutputBatch]) -> None:
            writer.append(batches)
            hosted.produced += sum(len(batch) for batch in batches)

        return LocalQuery(
            query.topology,
            hosted.settings,
            self._tails,
            write,
            reset,
            start,
            rebuild_to=self._log.group_offsets(done),
            state_bytes_max=self._state_bytes_max,
            on_end=lambda error: self._failed(hosted, error),
            paused=hosted.paused,
            name=query.id,
        )

    def _failed(self, hosted: _Hosted, error: BaseException) -> None:
        """A query has ended by itself, in its own thread."""
        _LOG.warning("query %s has failed: %s", hosted.query.id, error)
        hosted.failures.add(error)

    def _end(self, hosted: _Hosted) -> None:
        with hosted.lock:
            local, hosted.local = hosted.local, None
            if local is not None:
                local.close()
                self._keep_positions(hosted.query.id, local)

    def _keep_positions(self, query_id: str, local: LocalQuery) -> None:
        positions = local.positions()
        if positions and not local.is_rebuilding:
            try:
                self._log.commit_group_offsets(self._groups(query_id)[1], positions)
            except HayaseError as error:
                _LOG.warning("how far query %s is cannot be kept: %s", query_id, error)

    def _lag(self, positions: Mapping[TopicPartition, int]) -> int | None:
        """How many records wait; `None`: a topic is gone, or the log does not answer."""
        try:
            ends = self._log.end_offsets(list(positions))
        except HayaseError:
            return None
        return sum(max(0, ends[place] - offset) for place, offset in positions.items())

    def _groups(self, query_id: str) -> tuple[str, str]:
        """Where the log keeps the positions at which a query began, and at which it is."""
        return f"{self._prefix}-{query_id}-begin", f"{self._prefix}-{query_id}"

    def _watch(self) -> None:
        """Try failed queries again, and keep positions."""
        kept: dict[str, Mapping[TopicPartition, int]] = {}
        rounds = 0
        while not self._closed.wait(_WATCH_S):
            rounds += 1
            with self._lock:
                queries = dict(self._queries)
            for query_id, hosted in queries.items():
                with hosted.lock:
                    if hosted.failures.is_due() and not hosted.paused:
                        self._end(hosted)
                        self._begin(hosted)
                    local = hosted.local
                    if local is not None and rounds % 5 == 0 and kept.get(query_id) != local.positions():
                        kept[query_id] = local.positions()
                        self._keep_positions(query_id, local)
