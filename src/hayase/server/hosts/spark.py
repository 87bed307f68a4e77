"""Queries that run on Spark: topologies of one shared runtime."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from hayase.app.runtime_settings import check_runtime_settings, topology_config
from hayase.app.states import State
from hayase.core.errors import HayaseError, StateError, StreamsStoppedError
from hayase.log.protocol import Log
from hayase.server.hosts.failures import Failures
from hayase.server.hosts.protocol import QueryFailure, QueryState, QueryStatus
from hayase.server.hosts.spark_stores import SparkStore, SparkStoreForKey
from hayase.server.pull.stores import AsOf
from hayase.server.warm_up import import_planning
from hayase.sql.errors import StatementError
from hayase.sql.statements.results import PersistentQuery

if TYPE_CHECKING:  # what runs on Spark is slow to import; the server answers meanwhile
    from hayase.query.stores import StoreHandle
    from hayase.server.hosts.runtime_process import RemoteTopology, RuntimeProcess

_LOG = logging.getLogger("hayase.server.hosts")
_WATCH_S = 0.5
_START_MAX_S = 10.0
"""How long a server that stops waits for Spark to start: one that has started lets go of its leases."""
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.]")
_Work = Callable[[], None]
T = TypeVar("T")


@dataclass
class _Hosted:
    """A query that is to run."""

    query: PersistentQuery
    settings: Mapping[str, object]
    failures: Failures
    paused: bool
    is_added: bool = False
    is_held: bool = False


class SparkHost:
    """Runs queries as topologies of a `StreamsRuntime` in a process of its own (`QueryHost`).

    What is asked of it before Spark is there is done once it is. Changes are made one after the other in a thread of
    their own. Where the runtime's process ends by itself, another one goes on with the queries, after the same pauses
    as for a query that fails.

    Args:
        settings: of the runtime.
        log: of the topics.
        now_ms: the wall clock.
        retry_initial_ms: see Failures.
        retry_max_ms: see Failures.
        stop_timeout_s: how long an epoch may take to end.
        nice: of the runtime's processes; see `lower_priority`.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        log: Log,
        now_ms: Callable[[], int],
        *,
        retry_initial_ms: int,
        retry_max_ms: int,
        stop_timeout_s: float,
        nice: int = 0,
    ) -> None:
        check_runtime_settings(settings)  # the runtime does, too, but only when it is made
        self._settings = dict(settings)
        self._log = log
        self._now_ms = now_ms
        self._retry_ms = retry_initial_ms, retry_max_ms
        self._stop_timeout_s = stop_timeout_s
        self._nice = nice
        self._runtime: RuntimeProcess | None = None
        self._queries: dict[str, _Hosted] = {}
        self._handles: dict[tuple[str, str], tuple[RemoteTopology, StoreHandle]] = {}
        self._lock = threading.RLock()
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._run_work, name="hayase-spark-host", daemon=True)
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="hayase-spark-watch", daemon=True)
        self._problem: str | None = None
        self._of_runtime = Failures(now_ms, retry_initial_ms, retry_max_ms)
        self._replacing = False
        self._starting: RuntimeProcess | None = None
        self._start_over = threading.Event()
        """No runtime is being started."""

    def start(self) -> None:
        """See `QueryHost.start`."""
        self._worker.start()
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
            hosted = self._queries[query.id] = _Hosted(query, settings, failures, paused)
            hosted.is_added = before is not None and before.is_added
            hosted.is_held = problem is not None
        if problem is not None:
            failures.hold(problem)
            return
        if before is None:
            self._keep_start(hosted)
        self._work.put(lambda: self._add(hosted))

    def stop(self, query_id: str) -> None:
        """See `QueryHost.stop`. Waits for the epoch at work, and for changes before."""
        done = threading.Event()
        errors: list[HayaseError] = []

        def remove() -> None:
            try:
                self._remove(query_id)
            except HayaseError as error:
                errors.append(error)
            finally:
                done.set()

        with self._lock:
            self._queries.pop(query_id, None)
            self._handles = {place: kept for place, kept in self._handles.items() if place[0] != query_id}
        self._work.put(remove)
        if not self._is_up():  # its state goes when Spark is there, and before anything that comes later
            return
        if not done.wait(self._stop_timeout_s + 10):
            raise StateError("QUERY_DOES_NOT_END", f"query {query_id} has not ended in {self._stop_timeout_s:.0f} s")
        if errors:
            raise errors[0]

    def forget(self, query_id: str) -> None:
        """See `QueryHost.forget`. Spark is not needed for that."""
        from hayase.app.reset import reset_application

        reset_application(topology_config(self._settings, _name_of(query_id), {}, None), self._log)

    def pause(self, query_id: str) -> None:
        """See `QueryHost.pause`."""
        hosted = self._queries.get(query_id)
        if hosted is not None:
            hosted.paused = True
            self._work.put(lambda: self._set_paused(hosted))

    def resume(self, query_id: str) -> None:
        """See `QueryHost.resume`."""
        hosted = self._queries.get(query_id)
        if hosted is not None:
            hosted.paused = False
            self._work.put(lambda: self._set_paused(hosted))

    def status(self, query_id: str) -> QueryStatus:
        """See `QueryHost.status`."""
        hosted = self._queries.get(query_id)
        topology = self._topology(query_id)
        if hosted is None:
            return QueryStatus(QueryState.UNRESPONSIVE)
        errors = tuple(hosted.failures.last)
        if topology is None:
            waits = hosted.is_held or hosted.failures.retry_at_ms is not None
            return QueryStatus(QueryState.ERROR if waits else QueryState.UNRESPONSIVE, errors)
        report = topology.report
        own = tuple(QueryFailure(time_ms, text, "UNKNOWN") for time_ms, text in report.errors)
        return QueryStatus(
            self._state_of(hosted, topology),
            tuple(sorted({*errors, *own}, key=lambda failure: failure.time_ms))[-10:],
            report.consumed,
            report.produced,
            None,
            report.lag_records,
        )

    def open_store(self, query_id: str, store: str, as_of: AsOf | None = None) -> SparkStore:
        """See `QueryStores.open_store`."""
        with self._readable(query_id) as topology:
            if as_of is not None:
                return SparkStore(topology.store(store, as_of_epoch=as_of.epoch, as_of=as_of.time_ms))
            return self._newest(query_id, topology, store, SparkStore)

    def open_for_key(self, query_id: str, store: str) -> SparkStoreForKey:
        """See `QueryStores.open_for_key`."""
        with self._readable(query_id) as topology:
            return self._newest(query_id, topology, store, SparkStoreForKey)

    @contextmanager
    def _readable(self, query_id: str) -> Iterator[RemoteTopology]:
        """The topology of a query whose stores can be read; raises StatementError `NOT_READY`."""
        topology = self._topology(query_id)
        if topology is None or topology.report.state not in (State.RUNNING, State.REBALANCING):
            hosted = self._queries.get(query_id)
            problem = hosted.failures.last[-1].message if hosted is not None and hosted.is_held else self._problem
            if problem is None and self._starting is not None:
                problem = "Spark is starting"
            why = f": {problem}" if problem else ""
            raise StatementError("NOT_READY", f"query {query_id} does not run yet{why}. Try again later")
        try:
            yield topology
        except StateError as error:
            if error.condition in ("NO_STATE", "STATE_NOT_THERE"):
                raise StatementError(
                    "NOT_READY", f"query {query_id} has no state yet: {error.message.rstrip('.')}. Try again later"
                ) from error
            raise

    def _newest(self, query_id: str, topology: RemoteTopology, store: str, opened: Callable[[StoreHandle], T]) -> T:
        """A store by a handle that is kept, because opening one takes longer than a look-up."""
        kept = self._handles.get((query_id, store))
        if kept is not None and kept[0] is topology:
            try:
                return opened(kept[1])
            except StateError:  # what it is read from may have moved
                self._handles.pop((query_id, store), None)
        handle = topology.store(store)
        found = opened(handle)
        self._handles[query_id, store] = topology, handle
        return found

    def problem(self) -> str | None:
        """See `QueryHost.problem`."""
        return self._problem

    def close(self) -> None:
        """See `QueryHost.close`."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._work.put(None)
        starting = self._starting
        if starting is not None and not self._start_over.wait(_START_MAX_S):
            starting.kill()  # it runs nothing yet
        self._close_runtime()
        for thread in (self._worker, self._watcher):
            if thread.is_alive():
                thread.join()
        self._close_runtime()  # one that has taken its place meanwhile

    def _close_runtime(self) -> None:
        if self._runtime is not None:
            self._runtime.close(timedelta(seconds=self._stop_timeout_s))

    def _run_work(self) -> None:
        import_planning()
        while self._runtime is None:
            try:
                self._runtime = self._new_runtime()
            except Exception as error:
                self._note_not_started(error)
                if self._closed.wait(self._wait_s()):
                    return
        self._note_started()
        while (work := self._work.get()) is not None and not self._closed.is_set():
            try:
                work()
            except Exception as error:  # what failed is tried again, or its caller has the error
                unexpected = not isinstance(error, HayaseError)
                _LOG.warning("a change of the running queries has failed: %s", error, exc_info=unexpected)

    @property
    def _live(self) -> RuntimeProcess:
        """The runtime, for work: it is there before any is done."""
        assert self._runtime is not None
        return self._runtime

    def _keep_start(self, hosted: _Hosted) -> None:
        from hayase.server.hosts.start_positions import keep_start

        config = topology_config(self._settings, _name_of(hosted.query.id), hosted.settings, None)
        try:
            keep_start(hosted.query.topology, config, self._log, self._now_ms())
        except HayaseError as error:
            _LOG.warning("query %s begins where its topics end when it starts to run: %s", hosted.query.id, error)

    def _add(self, hosted: _Hosted) -> None:
        """Start a query, in place of its former definition."""
        name = _name_of(hosted.query.id)
        if self._queries.get(hosted.query.id) is not hosted:  # it was dropped or replaced meanwhile
            return
        hosted.failures.tried()
        try:
            if hosted.is_added:
                self._live.remove_topology(name, timeout=timedelta(seconds=self._stop_timeout_s))
                hosted.is_added = False
            self._live.add_topology(name, hosted.query.topology, hosted.settings, paused=hosted.paused)
            hosted.is_added = True
        except HayaseError as error:
            hosted.failures.add(error)
            _LOG.warning("query %s cannot be started: %s", hosted.query.id, error)

    def _remove(self, query_id: str) -> None:
        name = _name_of(query_id)
        if self._is_up() and name in self._live.topologies:
            try:
                self._live.remove_topology(name, delete_state=True, timeout=timedelta(seconds=self._stop_timeout_s))
                return
            except StreamsStoppedError as error:  # its process has ended, and so has the query
                _LOG.warning("query %s is removed without the runtime: %s", query_id, error)
        self.forget(query_id)

    def _set_paused(self, hosted: _Hosted) -> None:
        name = _name_of(hosted.query.id)
        if hosted.is_added:
            change = self._live.pause if hosted.paused else self._live.resume
            change(name)

    def _topology(self, query_id: str) -> RemoteTopology | None:
        """The topology of a query, as it was heard of last; `None`: there is none, or the host is closed."""
        return None if self._runtime is None or self._closed.is_set() else self._runtime.topology(_name_of(query_id))

    def _is_up(self) -> bool:
        return self._runtime is not None and self._runtime.state is State.RUNNING

    @staticmethod
    def _state_of(hosted: _Hosted, topology: RemoteTopology) -> QueryState:
        state = topology.report.state
        if state in (State.ERROR, State.PENDING_ERROR) or hosted.failures.retry_at_ms is not None:
            return QueryState.ERROR
        if hosted.paused:
            return QueryState.PAUSED
        return QueryState.RUNNING if state is State.RUNNING else QueryState.UNRESPONSIVE

    def _watch(self) -> None:
        """Note queries that have failed, and try them again when it is time."""
        while not self._closed.wait(_WATCH_S):
            self._watch_runtime()
            with self._lock:
                queries = list(self._queries.values())
            for hosted in queries:
                topology = self._topology(hosted.query.id)
                failed = topology is not None and topology.report.state is State.ERROR
                if failed and hosted.failures.retry_at_ms is None and topology is not None:
                    hosted.failures.add(
                        topology.report.error or StateError("QUERY_ENDED", "the query has ended by itself")
                    )
                if hosted.failures.is_due() and self._is_up():
                    hosted.failures.tried()
                    self._work.put(self._again(hosted, failed=failed))

    def _watch_runtime(self) -> None:
        """Have a runtime that has failed replaced, when it is time."""
        runtime, failures = self._runtime, self._of_runtime
        if runtime is None or runtime.state is not State.ERROR:
            return
        if failures.retry_at_ms is None:
            error = runtime.error or StateError("RUNTIME_ENDED", "it has ended by itself")
            failures.add(error)
            self._problem = f"the runtime has failed: {error}"
            _LOG.error("%s; another one is started in %d s", self._problem, self._wait_s())
        elif failures.is_due() and not self._replacing:
            self._replacing = True
            self._work.put(self._replace_runtime)

    def _wait_s(self) -> int:
        return -(-((self._of_runtime.retry_at_ms or 0) - self._now_ms()) // 1000)

    def _replace_runtime(self) -> None:
        """Start another runtime, with all queries; they go on where they were."""
        failed = self._live
        try:
            failed.close(timedelta(seconds=self._stop_timeout_s))
            runtime = self._new_runtime()
        except Exception as error:
            self._note_not_started(error)
            return
        finally:
            self._replacing = False
        self._note_started()
        with self._lock:
            self._runtime = runtime
            self._handles.clear()
            queries = list(self._queries.values())
            for hosted in queries:
                hosted.is_added = False
        for hosted in queries:
            if not hosted.is_held and not self._closed.is_set():
                self._add(hosted)

    def _new_runtime(self) -> RuntimeProcess:
        """A runtime that has started; raises where it does not start, or where the host is closed meanwhile."""
        from hayase.server.hosts.runtime_process import RuntimeProcess

        self._start_over.clear()
        runtime = self._starting = RuntimeProcess(self._settings, self._nice)
        try:
            if self._closed.is_set():
                raise StreamsStoppedError("STREAMS_STOPPED", "the server stops")
            runtime.start()
            return runtime
        except BaseException:
            runtime.close(timedelta())
            raise
        finally:
            self._starting = None
            self._start_over.set()

    def _note_started(self) -> None:
        self._of_runtime.tried()
        self._problem = None

    def _note_not_started(self, error: Exception) -> None:
        if self._closed.is_set():
            return
        self._of_runtime.tried()
        self._of_runtime.add(error)
        self._problem = f"the runtime cannot be started: {error}"
        unexpected = not isinstance(error, HayaseError)
        _LOG.error("%s; the next try is in %d s", self._problem, self._wait_s(), exc_info=unexpected)

    def _again(self, hosted: _Hosted, *, failed: bool) -> _Work:
        def restart() -> None:
            if self._queries.get(hosted.query.id) is not hosted:
                return
            try:
                self._live.restart(_name_of(hosted.query.id))
            except HayaseError as error:
                hosted.failures.add(error)

        return restart if failed and hosted.is_added else lambda: self._add(hosted)


def _name_of(query_id: str) -> str:
    """A query's id as the name of a topology."""
    return _UNNAMEABLE.sub(lambda found: f".{ord(found.group()):x}.", query_id)
