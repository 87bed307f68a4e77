"""Starts, watches and stops the query of an application."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import HayaseError, StateError, StreamsStoppedError
from hayase.runtime.driver.query import build_frame, start_query
from hayase.runtime.driver.run import Run, quietly
from hayase.runtime.driver.session import existing_session
from hayase.runtime.driver.spark_resources import SPARK_ERRORS, SparkResources
from hayase.runtime.wire.app_spec import AppSpec, delete_other_programs
from hayase.runtime.wire.failure import query_failure, spark_gone, start_failure
from hayase.runtime.wire.shutdown import have_processors_closed
from hayase.state.environment.seal import seal_states
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import is_out_of_space
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.runtime")

_POLL_S = 0.1
"""So often what planner and workers say is read; a look costs half a millisecond. In a run to the end, which is over at
any moment, more often."""
_BOUNDED_POLL_S = 0.05
_SPARK_POLL_MAX_S = 0.25
"""So often Spark is asked at least. Each time costs the driver and the JVM half a millisecond, and while a job goes on
there is nothing new: what planner and workers say is in files, which are read at each `poll`."""
_SPARK_POLL_FACTOR = 1.5


class QueryRunner:
    """The query of a run, and what brings and takes Spark DataFrames beside it.

    A run to the end of the input takes what the frames have first, then runs the query, then writes what is left.
    Spark's own log of epochs lives in the run's folder: our records alone decide which epochs are complete, so it
    may be damaged or lost without harm.

    Args:
        run: the run; the caller holds the application's lease.
        app: the application.
        blobs: its checkpoint.
        spark_settings: the user's `spark.*`.
        topology: with the functions, which are not shipped.
        interval_ms: between micro-batches.
        bounded: to the ends of the input as they are now.

    Attributes:
        run: the run.

    Raises:
        HayaseError: Spark does not start, or a frame of `from_spark` or `to_spark` cannot be made.
    """

    def __init__(
        self,
        run: Run,
        app: AppSpec,
        blobs: BlobStore,
        spark_settings: Mapping[str, str],
        topology: Topology,
        *,
        interval_ms: int,
        bounded: bool,
    ) -> None:
        self.run = run
        self._app = app
        self._interval_ms, self._bounded = interval_ms, bounded
        self._sources_first = bounded and bool(topology.spark_sources)
        digest = app.publish(blobs, run.vault)
        delete_other_programs(blobs, digest)
        self._options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "digest": digest,
            "patience_ms": str(app.task_timeout_ms),
            "control": app.endpoints.control_dir,
        }
        self._open_spark = partial(
            SparkResources, run, app, blobs, spark_settings, topology, interval_ms=interval_ms, bounded=bounded
        )
        self._query: StreamingQuery | None = None
        self._queries = 0
        # A query that stops is seen to be inactive before its stop() has returned; Spark must stay until then.
        self._ending = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._reopening = False
        """Whether Spark has to be started again, and has not been."""
        self._ask_spark_at, self._spark_poll_s = 0.0, _POLL_S
        self._spark = self._open_spark(options=self._options)

    def start(self) -> None:
        """Start what is beside the query, and the query, unless it has to wait for what is beside it.

        Raises:
            TopologyError, ProcessingError: a frame cannot be used, or the query does not start.
        """
        self._spark.io.start()
        if not self._sources_first:
            try:
                self._query = self._new_query()
            except SPARK_ERRORS as error:
                raise start_failure(str(error), self.run.spark_log) from error

    def _new_query(self) -> StreamingQuery:
        frame = build_frame(self._spark.session.session, self._options, self._app.plan.levels, self._app.slots)
        self._queries += 1
        epochs = (self.run.folder / f"spark-{self._queries}").as_uri()
        name = self._app.application_id
        return start_query(frame, name, epochs, interval_ms=self._interval_ms, bounded=self._bounded)

    def restart(self) -> None:
        """Start a new query in place of one that failed; it goes on with the epoch that is open.

        Likewise what is beside it. Python tasks of the failed one may still be at work: every step of an epoch allows
        for that. Where Spark's JVM ended, a new session is started first.
        """
        self._reopening |= self._end_of_spark() is not None
        if self._reopening:
            self._reopen_spark()
        else:
            self._spark.io.restart()
            self._take_progress()
        if self._query is None:
            return
        self.run.control.forget_planner()
        self.run.progress.begin_query()
        self._query = self._new_query()

    def _reopen_spark(self) -> None:
        self._spark.close()
        self.run.progress.add_reports(self.run.control.reports())
        self.run.control.request_yield(False)
        self._spark = self._open_spark(options=self._options)
        self._spark.io.start()
        self._reopening = False

    def replace(self, app: AppSpec, blobs: BlobStore) -> None:
        """Go on with an application that reads more topics, its levels and slots being the same. The planner holds.

        What is beside the query goes on with the program that it has.
        """
        self._app = app
        self._options = {**self._options, "digest": app.publish(blobs, self.run.vault)}
        self._take_progress()
        self.stop_query()
        self.run.control.forget_planner()
        self.run.control.request_change(app.hands_over)
        self.run.progress.begin_query()
        self._query = self._new_query()

    def wait(self) -> None:
        """Wait until it is time to `poll` again."""
        time.sleep(_BOUNDED_POLL_S if self._bounded else _POLL_S)

    def poll(self) -> bool:
        """Take in what Spark reported; whether the query, or what is beside it, is still at work."""
        if self._spark.io.error() is not None:
            self.stop_query()
            return False
        if self._query is None:
            return self._begin_when_sources_end()
        if time.monotonic() < self._ask_spark_at and not self._stopping.is_set():
            self._take_reports()
            return True
        active = bool(self._query.isActive)
        if active:
            self._spark.check_contention()
        self._ask_spark_later(news=self._take_progress())
        if active or self._stopping.is_set() or not self._bounded or self._query.exception() is not None:
            return active
        return self._spark.io.finish()

    def _ask_spark_later(self, *, news: bool) -> None:
        """Ask Spark less often while it says nothing new; not in a run to the end, which is over at any moment."""
        known_s = _POLL_S if news or self._bounded else self._spark_poll_s * _SPARK_POLL_FACTOR
        self._spark_poll_s = min(known_s, _SPARK_POLL_MAX_S)
        self._ask_spark_at = 0.0 if self._bounded else time.monotonic() + self._spark_poll_s

    def _begin_when_sources_end(self) -> bool:
        if self._spark.io.sources_finished and not self._stopping.is_set():
            self._query = self._new_query()
            if self._stopping.is_set():  # stop() has just looked, and there was none
                self.stop_query()
        return not self._stopping.is_set()

    def error(self) -> HayaseError | None:
        """Why the query, or what is beside it, ended, if it failed: the worker's own error where there is one."""
        error = self._spark.io.error()
        if error is None and self._query is not None:
            failure: StreamingQueryException | None = self._query.exception()
            if failure is not None:
                error = query_failure(str(failure), self.run.spark_log, planner_lost=self.run.control.planner_lost())
        if error is not None and (end := self._end_of_spark()) is not None:
            return spark_gone(error, self.run.spark_log, end)
        return error

    def why_lost(self, error: BaseException) -> HayaseError:
        """What an error means that came out of a call of this object: that Spark is gone, mostly, and how."""
        if isinstance(error, HayaseError):
            return error
        end = self._end_of_spark(wait=True)
        if isinstance(error, OSError) and is_out_of_space(error.errno):
            return spark_gone(error, self.run.spark_log)
        if end is None and isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return StreamsStoppedError(
                "SUPERVISOR_FAILED",
                f"the application cannot be watched any more, so it ends ({type(error).__name__}: {error}). Fix that "
                "and start it again; it goes on where it was",
            )
        return spark_gone(error, self.run.spark_log, end)

    def _end_of_spark(self, *, wait: bool = False) -> str | None:
        return self._spark.session.end(wait=wait)

    def stop(self, timeout_s: float) -> bool:
        """Stop between epochs; in mid-epoch if that takes longer than the timeout. Whether it was between epochs.

        The same for what is beside the query, which is waited for at the same time.
        """
        self._stopping.set()
        try:
            return self._stop_all(time.monotonic() + timeout_s)
        except SPARK_ERRORS as error:
            level = logging.WARNING if self._end_of_spark(wait=True) is None else logging.INFO
            _LOG.log(level, "Spark cannot be asked to stop: %s", error)
            return False
        finally:
            self._stopped.set()

    def _stop_all(self, deadline: float) -> bool:
        self._spark.io.request_stop()
        clean = [self._spark.io.stop_sources(deadline)]
        if self._query is not None and self._query.isActive:
            with contextlib.suppress(StateError):  # a full disk: then it is stopped in mid-epoch
                self.run.control.request_stop()
            while not self.run.control.suspended() and self._query.isActive and time.monotonic() < deadline:
                time.sleep(0.01)
            clean.append(self.run.control.suspended() or not self._query.isActive)
            self._take_progress()
            clean.append(self.stop_query())
        else:
            self._take_progress()
        return all((*clean, self._spark.io.stop_sinks(deadline)))

    def stop_query(self) -> bool:
        """Stop it at once; an epoch that is open is finished by the next start.

        Whether Spark did so without complaint.
        """
        try:
            with self._ending:
                if not self._closed and self._query is not None:
                    self._query.stop()
        except SPARK_ERRORS:
            return False
        return True

    def close(self) -> None:
        """Let go of Spark, if this run started it. Waits for a `stop` in another thread.

        Never raises: what cannot be closed because Spark is gone has ended with it.
        """
        if self._stopping.is_set():
            self._stopped.wait()
        with self._ending:
            self._closed = True
            quietly("processors could not be closed", lambda: have_processors_closed(self.run.folder))
            self._spark.close()
        quietly("states could not be closed cleanly", self._close_states)

    def _close_states(self) -> None:
        """Close the states that workers had on this machine's disks, if Spark has ended and its workers with it."""
        if not self._app.cluster and existing_session() is None:
            disk = self._app.folders.disk
            seal_states([*disk.glob("state/*"), *disk.glob("unlogged/*")])

    def _take_progress(self) -> bool:
        """Only what is new: PySpark's `recentProgress` would parse all of the last thousand again at every look.

        Whether there was anything.
        """
        if self._query is None:
            return False
        reports = self._query._jsq.recentProgress()
        new: list[dict[str, Any]] = []
        for position in range(len(reports) - 1, -1, -1):
            if int(reports[position].batchId()) <= self.run.progress.seen_batch:
                break
            new.append(json.loads(reports[position].json()))
        self.run.progress.take(reversed(new))
        self._take_reports()
        if new and self.run.progress.due_ms is not None:
            self.run.control.publish_due(self.run.progress.last_epoch, self.run.progress.due_ms)
        return bool(new)

    def _take_reports(self) -> None:
        """What the planner has said of epochs since the last call."""
        self.run.progress.add_reports(self.run.control.reports())
