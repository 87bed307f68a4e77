"""Starts, watches and stops the query of an application."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import HayaseError, StateError, StreamsStoppedError
from hayase.core.private_files import make_folder, open_file, umask_of
from hayase.core.secrets import Vault
from hayase.runtime.driver.core_contention import CoreContention
from hayase.runtime.driver.jvm import LOST
from hayase.runtime.driver.master import driver_addresses
from hayase.runtime.driver.progress import Progress
from hayase.runtime.driver.query import build_frame, start_query, wake_workers
from hayase.runtime.driver.session import HADOOP_UMASK, SessionUse, existing_session
from hayase.runtime.epochs.planner_status import PlannerStatus
from hayase.runtime.spark_io.spark_io import FAIR, SparkIO, has_spark_io
from hayase.runtime.wire.app_spec import AppSpec, delete_other_programs
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.failure import query_failure, spark_gone, start_failure
from hayase.runtime.wire.log_relay import LogRelay
from hayase.runtime.wire.shutdown import have_processors_closed
from hayase.state.environment.seal import seal_states
from hayase.storage.blobs import BlobStore
from hayase.storage.disk_full import is_out_of_space
from hayase.topology.topology import Topology

_LOG = logging.getLogger("hayase.runtime")


_SPARK_ERRORS: tuple[type[Exception], ...] = (*LOST, PySparkException)
"""What calls of Spark raise when the query has failed, or its JVM is gone."""


class QueryRunner:
    """One run of an application on Spark: its query, and what brings and takes frames of Spark's beside it.

    A run to the end of the input takes what the frames have first, then runs the query, then writes what is left.
    """

    def __init__(self, folder: Path, host: str = "", bind: str = "") -> None:
        self._folder = folder
        self.control = DriverControl(folder)
        self._log_relay = LogRelay(host, bind)
        self.endpoints = RunEndpoints(str(folder), str(self._log_relay.folder), self._log_relay.address, host, bind)
        self._vault = Vault()
        self._contention: CoreContention | None = None
        self._folders: Path | None = None
        self.progress = Progress()
        self._query: StreamingQuery | None = None
        self._io: SparkIO | None = None
        self._bounded = False
        self._session: SessionUse | None = None
        self._status: PlannerStatus | None = None
        # A query that stops is seen to be inactive before its stop() has returned; Spark must stay until then.
        self._ending = threading.Lock()
        self._closed = False
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._waking: threading.Thread | None = None
        self._open_spark: Callable[[], None] | None = None
        self._new_query: Callable[[], StreamingQuery] | None = None
        self._options: dict[str, str] = {}
        self._queries = 0
        self._interval_ms = 0
        self._opening = False
        """Whether Spark has to be started anew, and has not been."""
        self.spark_log = folder.parent.parent / "spark.log"
        os.close(open_file(self.spark_log, os.O_WRONLY))  # the JVM may not be ours, and have another umask

    @classmethod
    def make(cls, folder: Path, spark_settings: Mapping[str, str]) -> QueryRunner:
        """A runner with a control folder of its own inside `folder`; those of runs that were killed are removed.

        The caller holds the application's lease, so no other run is alive.

        Raises:
            ConfigError: MASTER_UNREACHABLE.
        """
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        return cls(Path(tempfile.mkdtemp(dir=folder.resolve())), *driver_addresses(spark_settings))

    def start(
        self,
        app: AppSpec,
        blobs: BlobStore,
        spark_settings: Mapping[str, str],
        topology: Topology,
        *,
        interval_ms: int,
        bounded: bool,
    ) -> None:
        """Start Spark, if need be, and the query. The caller holds the application's lease.

        Spark's own log of epochs lives in the control folder: which epochs are through is decided by our records
        alone, so it may be damaged or lost without harm.

        Raises:
            TopologyError, ProcessingError: a frame of `from_spark` or `to_spark` cannot be made, or not be used.
        """
        if has_spark_io(topology):
            spark_settings = {**FAIR, **spark_settings}
        else:  # what Spark writes is its own alone
            spark_settings = {HADOOP_UMASK: f"{umask_of(self._folder.parent):03o}", **spark_settings}
        self._folders = None if app.cluster else app.folders.disk
        digest = app.publish(blobs, self._vault)
        delete_other_programs(blobs, digest)
        self._options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "digest": digest,
            "patience_ms": str(app.task_timeout_ms),
            "control": app.endpoints.control_dir,
        }

        def open_spark() -> None:
            try:
                session = self._session = SessionUse(app.application_id, app.slots, spark_settings, self.spark_log)
            except _SPARK_ERRORS as error:
                raise start_failure(str(error), self.spark_log) from error
            if app.span_max_ms > 0:
                self._contention = CoreContention(
                    session.active_jobs, lambda: session.shared, session.executors, self.control.request_yield
                )
            if session.started:
                tasks = app.slots if app.cluster else 1
                self._waking = threading.Thread(
                    target=wake_workers, args=(session.session, tasks), name="hayase-wake", daemon=True
                )
                self._waking.start()
            self._io = SparkIO(
                topology,
                app,
                blobs,
                self.control,
                session.session,
                spark_settings,
                self._options,
                self._folder,
                self.spark_log,
            )

        def new_query() -> StreamingQuery:
            assert self._session is not None
            frame = build_frame(self._session.session, self._options, app.plan.levels, app.slots)
            self._queries += 1
            epochs = (self._folder / f"spark-{self._queries}").as_uri()
            return start_query(frame, app.application_id, epochs, interval_ms=interval_ms, bounded=bounded)

        self._open_spark, self._new_query = open_spark, new_query
        self._interval_ms, self._bounded = interval_ms, bounded
        open_spark()
        assert self._io is not None
        self._io.start(interval_ms=interval_ms, bounded=bounded)
        if not (bounded and topology.spark_sources):
            try:
                self._query = new_query()
            except _SPARK_ERRORS as error:
                raise start_failure(str(error), self.spark_log) from error

    def restart(self) -> None:
        """Start a new query in place of one that failed; it goes on with the epoch that is open.

        Likewise what is beside it.

        Python tasks of the failed one may still be at work: every step of an epoch allows for that. Where Spark's JVM
        ended, a new session is started first.
        """
        assert self._new_query is not None
        assert self._io is not None
        self._opening |= self._end_of_spark() is not None
        if self._opening:
            self._open_again()
        else:
            self._io.restart()
            self._take_progress()
        if self._query is None:
            return
        self.control.forget_planner()
        self.progress.begin_query()
        self._query = self._new_query()

    def _open_again(self) -> None:
        assert self._open_spark is not None
        assert self._session is not None
        self._quietly("what ran beside the query could not be closed", self._io.close if self._io is not None else None)
        self._session.release()
        self.progress.add_reports(self.control.reports())
        self.control.request_yield(False)
        self._open_spark()
        assert self._io is not None
        self._io.start(interval_ms=self._interval_ms, bounded=self._bounded)
        self._opening = False

    def replace(self, app: AppSpec, blobs: BlobStore) -> None:
        """Go on with an application that reads more topics, its levels and slots being the same. The planner holds.

        What is beside the query goes on with the program that it has.
        """
        self._options = {**self._options, "digest": app.publish(blobs, self._vault)}
        self._take_progress()
        self.stop_query()
        self.control.forget_planner()
        self.control.request_change(False)
        self.progress.begin_query()
        assert self._new_query is not None
        self._query = self._new_query()

    def poll(self) -> bool:
        """Take in what Spark reported; whether the query, or what is beside it, is still at work."""
        assert self._io is not None
        if self._io.error() is not None:
            self.stop_query()
            return False
        if self._query is None:
            return self._begin_when_fed()
        active = bool(self._query.isActive)
        if active and self._contention is not None and not (self._waking is not None and self._waking.is_alive()):
            self._contention.check()
        self._take_progress()
        if active or self._stopping.is_set() or not self._bounded or self._query.exception() is not None:
            return active
        return self._io.finish()

    def _begin_when_fed(self) -> bool:
        assert self._io is not None
        assert self._new_query is not None
        if self._io.fed and not self._stopping.is_set():
            self._query = self._new_query()
            if self._stopping.is_set():  # stop() has just looked, and there was none
                self.stop_query()
        return not self._stopping.is_set()

    def status(self) -> PlannerStatus | None:
        """What the planner last said."""
        data = self.control.status()
        if data is not None:
            self._status = msgspec.json.decode(data, type=PlannerStatus)
        if self._status is not None and not self._status.waiting and (waiting := self.control.waiting()):
            return msgspec.structs.replace(self._status, waiting=waiting)
        return self._status

    def error(self) -> HayaseError | None:
        """Why the query, or what is beside it, ended, if it failed: the worker's own error where there is one."""
        assert self._io is not None
        error = self._io.error()
        if error is None and self._query is not None:
            failure: StreamingQueryException | None = self._query.exception()
            if failure is not None:
                error = query_failure(str(failure), self.spark_log, planner_lost=self.control.planner_lost())
        if error is not None and (end := self._end_of_spark()) is not None:
            return spark_gone(error, self.spark_log, end)
        return error

    def why_lost(self, error: Exception) -> HayaseError:
        """What an error means that came out of a call of this object: that Spark is gone, mostly, and how."""
        if isinstance(error, HayaseError):
            return error
        end = self._end_of_spark(wait=True)
        if isinstance(error, OSError) and is_out_of_space(error.errno):
            return spark_gone(error, self.spark_log)
        if end is None and isinstance(error, OSError) and not isinstance(error, ConnectionError):
            return StreamsStoppedError(
                "SUPERVISOR_FAILED",
                f"the application cannot be watched any more, so it ends ({type(error).__name__}: {error}). Mend that "
                "and start it again; it goes on where it was",
            )
        return spark_gone(error, self.spark_log, end)

    def _end_of_spark(self, *, wait: bool = False) -> str | None:
        return self._session.end(wait=wait) if self._session is not None else None

    def stop(self, timeout_s: float) -> bool:
        """Stop between epochs; in mid-epoch if that takes longer than the timeout. Whether it was between epochs.

        The same for what is beside the query, which is waited for at the same time.
        """
        self._stopping.set()
        try:
            return self._stop_all(time.monotonic() + timeout_s)
        except _SPARK_ERRORS as error:
            _LOG.warning("Spark cannot be asked to stop: %s", error)
            return False
        finally:
            self._stopped.set()

    def _stop_all(self, deadline: float) -> bool:
        if self._io is None:
            return True
        self._io.request_stop()
        clean = [self._io.stop_feeds(deadline)]
        if self._query is not None and self._query.isActive:
            with contextlib.suppress(StateError):  # a full disk: then it is stopped in mid-epoch
                self.control.request_stop()
            while not self.control.suspended() and self._query.isActive and time.monotonic() < deadline:
                time.sleep(0.01)
            clean.append(self.control.suspended() or not self._query.isActive)
            self._take_progress()
            clean.append(self.stop_query())
        else:
            self._take_progress()
        return all((*clean, self._io.stop_drains(deadline)))

    def stop_query(self) -> bool:
        """Stop it at once; an epoch that is open is finished by the next start.

        Whether Spark did so without complaint.
        """
        try:
            with self._ending:
                if not self._closed and self._query is not None:
                    self._query.stop()
        except _SPARK_ERRORS:
            return False
        return True

    def close(self) -> None:
        """Let go of Spark, if this run started it, and of the control folder. Waits for a `stop` in another thread.

        Never raises: what cannot be closed because Spark is gone has ended with it.
        """
        if self._stopping.is_set():
            self._stopped.wait()
        with self._ending:
            self._closed = True
            self._quietly("processors could not be closed", lambda: have_processors_closed(self._folder))
            self._quietly(
                "what ran beside the query could not be closed", self._io.close if self._io is not None else None
            )
            self._quietly("Spark could not be let go", self._session.release if self._session is not None else None)
        self._quietly("states could not be closed cleanly", self._close_states)
        self._quietly("the last status could not be read", self.status)
        self._quietly("the relay of logs could not be closed", self._log_relay.close)
        self._quietly("the vault of secrets could not be closed", self._vault.close)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _close_states(self) -> None:
        """Close the states that workers had on this machine's disks, if Spark has ended and its workers with it."""
        if self._folders is not None and existing_session() is None:
            seal_states([*self._folders.glob("state/*"), *self._folders.glob("unlogged/*")])

    def _quietly(self, failed: str, close: Callable[[], object] | None) -> None:
        """One of several things that have to be closed must not keep the others open."""
        try:
            if close is not None:
                close()
        except Exception:
            _LOG.warning(failed, exc_info=True)

    def _take_progress(self) -> None:
        """Only what is new: PySpark's `recentProgress` would parse all of the last thousand again at every look."""
        if self._query is None:
            return
        reports = self._query._jsq.recentProgress()
        new: list[dict[str, Any]] = []
        for position in range(len(reports) - 1, -1, -1):
            if int(reports[position].batchId()) <= self.progress.seen_batch:
                break
            new.append(json.loads(reports[position].json()))
        self.progress.take(reversed(new))
        self.progress.add_reports(self.control.reports())
        if new and self.progress.due_ms is not None:
            self.control.publish_due(self.progress.last_epoch, self.progress.due_ms)
