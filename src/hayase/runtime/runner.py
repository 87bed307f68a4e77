"""Starts, watches and stops the query of an application."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import HayaseError, ProcessingError
from hayase.runtime.control import Control
from hayase.runtime.coordinator import PlannerStatus
from hayase.runtime.failure import find_error
from hayase.runtime.progress import Progress
from hayase.runtime.query import build_frame, start_query
from hayase.runtime.session import SessionUse
from hayase.runtime.shipped import ShippedApp
from hayase.storage.blobs import BlobStore


class Runner:
    """One run of an application on Spark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.control = Control(folder)
        self.progress = Progress()
        self._query: StreamingQuery | None = None
        self._session: SessionUse | None = None
        self._status: PlannerStatus | None = None
        # A query that stops is seen to be inactive before its stop() has returned; Spark must stay until then.
        self._ending = threading.Lock()
        self._closed = False

    @classmethod
    def make(cls, folder: Path) -> Runner:
        """A runner with a control folder of its own inside `folder`; those of runs that were killed are removed.

        The caller holds the application's lease, so no other run is alive.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(Path(tempfile.mkdtemp(dir=folder.resolve())))

    @property
    def control_dir(self) -> str:
        """Folder through which driver and planner talk."""
        return str(self._folder)

    def start(
        self, app: ShippedApp, blobs: BlobStore, spark_settings: Mapping[str, str], *, interval_ms: int, bounded: bool
    ) -> None:
        """Start Spark, if need be, and the query.

        Spark's own log of epochs lives in the control folder: which epochs are through is decided by our records
        alone, so it may be damaged or lost without harm.
        """
        spark_log = self._folder.parent.parent / "spark.log"
        self._session = SessionUse(app.application_id, app.slots, spark_settings, spark_log)
        options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "digest": app.publish(blobs),
        }
        frame = build_frame(self._session.session, options, app.plan.levels, app.slots)
        epochs = (self._folder / "spark").as_uri()
        self._query = start_query(frame, app.application_id, epochs, interval_ms=interval_ms, bounded=bounded)

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
        text = str(failure)
        found = find_error(text)
        return found or ProcessingError("SPARK_FAILED", f"the Spark query failed: {text.strip()[:4000]}")

    def stop(self, timeout_s: float) -> bool:
        """Stop between epochs; in mid-epoch if that takes longer than the timeout. Whether it was between epochs."""
        if self._query is None:
            return True
        clean = True
        if self._query.isActive:
            self.control.ask_pause(True)
            deadline = time.monotonic() + timeout_s
            while not self.control.paused() and self._query.isActive and time.monotonic() < deadline:
                time.sleep(0.01)
            clean = self.control.paused() or not self._query.isActive
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
