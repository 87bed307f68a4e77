"""Starts, watches and stops the query of an application."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import HayaseError, ProcessingError
from hayase.runtime.control import Control
from hayase.runtime.coordinator import PlannerStatus
from hayase.runtime.failure import find_error
from hayase.runtime.progress import Progress
from hayase.runtime.query import build_frame, start_query
from hayase.runtime.session import build_session
from hayase.runtime.shipped import ShippedApp
from hayase.storage.blobs import BlobStore


class Runner:
    """One run of an application on Spark."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.control = Control(folder)
        self.progress = Progress()
        self._query: StreamingQuery | None = None
        self._spark: SparkSession | None = None
        self._owns_session = False

    @classmethod
    def make(cls) -> Runner:
        """A runner with a control folder of its own."""
        return cls(Path(tempfile.mkdtemp(prefix="hayase-run-")))

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
        self._owns_session = SparkSession.getActiveSession() is None
        self._spark = build_session(app.application_id, app.slots, spark_settings)
        options = {
            "checkpoint": app.checkpoint,
            "fsync": "true" if app.checkpoint_fsync else "false",
            "digest": app.publish(blobs),
        }
        frame = build_frame(self._spark, options, app.plan.levels, app.slots)
        spark_log = (self._folder / "spark").as_uri()
        self._query = start_query(frame, app.application_id, spark_log, interval_ms=interval_ms, bounded=bounded)

    def poll(self) -> bool:
        """Take in what Spark reported; whether the query is still at work."""
        assert self._query is not None
        active = bool(self._query.isActive)
        self.progress.take(self._query.recentProgress)
        return active

    def status(self) -> PlannerStatus | None:
        """What the planner last said."""
        data = self.control.status()
        return msgspec.json.decode(data, type=PlannerStatus) if data is not None else None

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
            self.progress.take(self._query.recentProgress)
            try:
                self._query.stop()
            except PySparkException:
                clean = False  # the epoch is finished by the next start
        else:
            self.progress.take(self._query.recentProgress)
        return clean

    def close(self) -> None:
        """Let go of Spark, if this run started it, and of the control folder."""
        if self._spark is not None and self._owns_session:
            self._spark.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
