"""The one Spark query of a shared runtime, and the list of the topologies that run in it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import HayaseError
from hayase.core.private_files import make_folder, umask_of
from hayase.runtime.driver.core_contention import CoreContention
from hayase.runtime.driver.master import driver_addresses, is_cluster, sends_in_clear
from hayase.runtime.driver.query import build_frame, start_query
from hayase.runtime.driver.run import quietly
from hayase.runtime.driver.session import HADOOP_UMASK, SessionUse
from hayase.runtime.driver.spark_resources import SPARK_ERRORS
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.failure import query_failure, spark_gone, start_failure
from hayase.runtime.wire.folder_watch import FolderWatch
from hayase.runtime.wire.log_relay import LogRelay
from hayase.runtime.wire.shared_options import SHARED, SharedOptions
from hayase.runtime.wire.topology_list import InputEnds, TopologyStarts

_LOG = logging.getLogger("hayase.runtime")

_POLL_S = 0.5
_RETURN_S = 10.0
_RETURN_POLL_S = 0.01
_INTERVAL_MS = 0


class SharedQuery:
    """Started by `start`, goes on until `close`; a query that fails is started again while `delay_s` says so.

    Topologies go on with the next query where the last one left them. Thread-safe.

    Args:
        runtime_id: the `application.id` of the runtime.
        folder: for runs; the caller holds the runtime's lease, so what others have left there is removed.
        slots: how many topologies are worked on at a time.
        spark_settings: the user's `spark.*`.
        known_settings: see `hayase.runtime.driver.session.settings_of_session`.
        job_s: how long a Spark job goes on; 0: for one round.
        log_level: the least level that workers send.
        checkpoint, fsync: the runtime's checkpoint.
        patience_ms: how long its processes wait for what is away.
        delay_s: seconds to wait before a query that failed with that error is started again; `None`: the runtime fails.

    Attributes:
        endpoints: addresses of the run; the control folder is the runtime's.
        spark_log: the file for what Spark's JVM has to say.
        folders: of the topologies' runs.
        error: what the runtime failed with.
    """

    def __init__(
        self,
        runtime_id: str,
        folder: Path,
        slots: int,
        spark_settings: Mapping[str, str],
        known_settings: Mapping[str, str],
        *,
        job_s: float,
        log_level: str,
        checkpoint: str,
        fsync: bool,
        patience_ms: int,
        slot_memory_max_bytes: int,
        delay_s: Callable[[HayaseError], float | None],
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        self.folder = Path(tempfile.mkdtemp(dir=folder.resolve()))
        self.control = DriverControl(self.folder)
        self.spark_log = folder.parent / "spark.log"
        host, bind = driver_addresses(known_settings)
        self._relay = LogRelay(host, bind)
        self.endpoints = RunEndpoints(str(self.folder), str(self._relay.folder), self._relay.address, host, bind)
        self.slots = slots
        self.folders = FolderWatch()
        self.error: HayaseError | None = None
        self._id = runtime_id
        self._settings = {HADOOP_UMASK: f"{umask_of(folder.parent):03o}", **spark_settings}
        self._delay_s = delay_s
        self._shared_options = SharedOptions(
            str(self.folder),
            slots,
            0.0 if sends_in_clear(known_settings) else job_s,
            self.endpoints.sockets_dir,
            self.endpoints.log_address,
            host,
            bind,
            log_level,
            runtime_id,
            checkpoint,
            fsync,
            patience_ms,
            slot_memory_max_bytes,
        )
        self._listed = TopologyStarts(self.folder)
        self._queries = 0
        self._session: SessionUse | None = None
        self._contention: CoreContention | None = None
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="hayase-shared-query", daemon=True)

    def start(self) -> None:
        """Start Spark and the query.

        Raises:
            HayaseError: Spark does not start.
        """
        self._open()
        self._thread.start()

    def list_topology(
        self, application_id: str, options: Mapping[str, str], *, bounded: bool, ends: InputEnds | None = None
    ) -> int:
        """Have a topology run from now on; in place of what runs under that id. Returns the number of this start."""
        return self._listed.add(application_id, options, bounded=bounded, ends=ends)

    def unlist_topology(self, application_id: str) -> None:
        """Stop a topology: at once, an epoch that is open is finished by its next start."""
        self._listed.remove(application_id)

    def close(self) -> None:
        """Stop the query, and Spark, if this runtime started it. Never raises."""
        self._stopping.set()
        quietly("the runtime could not be asked to stop", self.control.request_stop)
        if self._thread.is_alive():
            self._thread.join()
        self._wait_for_tasks()
        quietly("the query could not be stopped", self._stop_query)
        if self._session is not None:
            quietly("Spark could not be let go", self._session.release)
        quietly("the relay of logs could not be closed", self._relay.close)
        self.folders.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _open(self) -> None:
        try:
            if self._session is None:
                self._session = SessionUse(self._id, self.slots, self._settings, self.spark_log)
                session = self._session
                self._contention = CoreContention(
                    session.active_jobs, lambda: session.shared, session.executors, self.control.request_yield
                )
            self._queries += 1
            frame = build_frame(self._session.session, self._options_on(self._session.session), 1, self.slots)
            log = (self.folder / f"spark-{self._queries}").as_uri()
            self._query = start_query(frame, self._id, log, interval_ms=_INTERVAL_MS, bounded=False)
        except SPARK_ERRORS as error:
            raise start_failure(str(error), self.spark_log) from error

    def _options_on(self, session: SparkSession) -> dict[str, str]:
        """Without spans where a local session has fewer cores than slots: not all tasks would join."""
        options, context = self._shared_options, session.sparkContext
        if not is_cluster(context.master or "") and context.defaultParallelism < self.slots:
            options = msgspec.structs.replace(options, job_s=0.0)
        return {SHARED: msgspec.json.encode(options).decode()}

    def _wait_for_tasks(self) -> None:
        """Until the tasks of the slots have returned, not for long."""
        deadline = time.monotonic() + _RETURN_S
        while self.error is None and not self.control.suspended() and time.monotonic() < deadline:
            if not self.control.ready():
                return
            time.sleep(_RETURN_POLL_S)

    def _stop_query(self) -> None:
        with contextlib.suppress(*SPARK_ERRORS):  # where Spark is gone, the query is
            if self._query is not None:
                self._query.stop()

    def _watch(self) -> None:
        while not self._stopping.wait(_POLL_S):
            error = self._failure()
            while error is not None:
                delay_s = self._delay_s(error)
                if delay_s is None:
                    self.error = error
                    return
                if self._stopping.wait(delay_s):
                    return
                error = self._replace()

    def _failure(self) -> HayaseError | None:
        assert self._query is not None and self._session is not None
        try:
            if self._query.isActive:
                if self._contention is not None:
                    self._contention.check()
                return None
            failure: StreamingQueryException | None = self._query.exception()
        except Exception as gone:  # the JVM is
            return spark_gone(gone, self.spark_log, self._session.end(wait=True))
        text = str(failure) if failure is not None else "the query was stopped by the program"
        error = query_failure(text, self.spark_log, planner_lost=self.control.planner_lost())
        end = self._session.end()
        return error if end is None else spark_gone(RuntimeError(str(error)), self.spark_log, end)

    def _replace(self) -> HayaseError | None:
        """A new query, in a new session if Spark's JVM has ended; why there is none, if there is not.

        Its planner takes the list as it is.
        """
        assert self._session is not None
        try:
            self.control.forget_planner()
            if self._session.end() is not None:
                self._session.release()
                self._session = None
            self._open()
        except HayaseError as error:
            return error
        except Exception as error:
            return spark_gone(error, self.spark_log)
        return None
