"""Starts, watches and stops the query of an application."""

from __future__ import annotations

import json
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

from hayase.core.errors import HayaseError
from hayase.core.secrets import Vault
from hayase.runtime.control import Control
from hayase.runtime.coordinator import PlannerStatus
from hayase.runtime.failure import query_failure
from hayase.runtime.log_relay import LogRelay
from hayase.runtime.progress import Progress
from hayase.runtime.query import build_frame, start_query, wake_workers
from hayase.runtime.session import SessionUse
from hayase.runtime.shipped import ShippedApp, delete_other_programs
from hayase.storage.blobs import BlobStore


class Runner:
    """One run of an application on Spark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.control = Control(folder)
        self._log_relay = LogRelay()
        self._vault = Vault()
        self.progress = Progress()
        self._query: StreamingQuery | None = None
        self._session: SessionUse | None = None
        self._status: PlannerStatus | None = None
        # A query that stops is seen to be inactive before its stop() has returned; Spark must stay until then.
        self._ending = threading.Lock()
        self._closed = False
        self._new_query: Callable[[], StreamingQuery] | None = None
        self._queries = 0
        self.spark_log = folder.parent.parent / "spark.log"

    @classmethod
    def make(cls, folder: Path) -> Runner:
        """A runner with a control folder of its own inside `folder`; those of runs that were killed are removed.

        The caller holds the application's lease, so no other run is alive.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(Path(tempfile.mkdtemp(dir=folder.resolve())))

    @property
    def log_address(self) -> str:
        """Where workers send what they log."""
        return self._log_relay.address

    @property
    def control_dir(self) -> str:
        """Folder through which driver and planner talk."""
        return str(self._folder)

    def start(
        self, app: ShippedApp, blobs: BlobStore, spark_settings: Mapping[str, str], *, interval_ms: int, bounded: bool
    ) -> None:
        """Start Spark, if need be, and the query. The caller holds the application's lease.

        Spark's own log of epochs lives in the control folder: which epochs are through is decided by our records
        alone, so it may be damaged or lost without harm.
        """
        digest = app.publish(blobs, self._vault)
        delete_other_programs(blobs, digest)
        session = SessionUse(app.application_id, app.slots, spark_settings, self.spark_log)
        self._session = session
        if session.started:
            threading.Thread(target=wake_workers, args=(session.session,), name="hayase-wake", daemon=True).start()
        options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "digest": digest,
        }

        def new_query() -> StreamingQuery:
            frame = build_frame(session.session, options, app.plan.levels, app.slots)
            self._queries += 1
            epochs = (self._folder / f"spark-{self._queries}").as_uri()
            return start_query(frame, app.application_id, epochs, interval_ms=interval_ms, bounded=bounded)

        self._new_query = new_query
        self._query = new_query()

    def restart(self) -> None:
        """Start a new query in place of one that failed; it goes on with the epoch that is open.

        Python tasks of the failed one may still be at work: every step of an epoch allows for that.
        """
        assert self._new_query is not None
        self._take_progress()
        self.control.forget_planner()
        self.progress.begin_query()
        self._query = self._new_query()

    def poll(self) -> bool:
        """Take in what Spark reported; whether the query is still at work."""
        assert self._query is not None
        active = bool(self._query.isActive)
        self._take_progress()
        return active

    def status(self) -> PlannerStatus | None:
        """What the planner last said."""
        data = self.control.status()
        if data is not None:
            self._status = msgspec.json.decode(data, type=PlannerStatus)
        return self._status

    def error(self) -> HayaseError | None:
        """Why the query ended, if it failed: the worker's own error where there is one."""
        assert self._query is not None
        failure: StreamingQueryException | None = self._query.exception()
        if failure is None:
            return None
        return query_failure(str(failure), self.spark_log, planner_lost=self.control.planner_lost())

    def stop(self, timeout_s: float) -> bool:
        """Stop between epochs; in mid-epoch if that takes longer than the timeout. Whether it was between epochs."""
        if self._query is None:
            return True
        clean = True
        if self._query.isActive:
            self.control.ask_stop()
            deadline = time.monotonic() + timeout_s
            while not self.control.holding() and self._query.isActive and time.monotonic() < deadline:
                time.sleep(0.01)
            clean = self.control.holding() or not self._query.isActive
            self._take_progress()
            try:
                with self._ending:
                    if not self._closed:
                        self._query.stop()
            except PySparkException:
                clean = False  # the epoch is finished by the next start
        else:
            self._take_progress()
        return clean

    def close(self) -> None:
        """Let go of Spark, if this run started it, and of the control folder."""
        with self._ending:
            self._closed = True
            if self._session is not None:
                self._session.release()
        self.status()
        self._log_relay.close()
        self._vault.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take_progress(self) -> None:
        """Only what is new: PySpark's `recentProgress` would parse all of the last thousand again at every look."""
        assert self._query is not None
        reports = self._query._jsq.recentProgress()
        new: list[dict[str, Any]] = []
        for position in range(len(reports) - 1, -1, -1):
            if int(reports[position].batchId()) <= self.progress.seen_batch:
                break
            new.append(json.loads(reports[position].json()))
        self.progress.take(reversed(new))
        if new and self.progress.due_ms is not None:
            self.control.say_due(self.progress.last_epoch, self.progress.due_ms)
