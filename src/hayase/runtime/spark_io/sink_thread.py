"""The sink thread of a `to_spark`.

A thread that hands ranges of an internal topic to the user's writer, one after the other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hayase.core.errors import HayaseError, LogError
from hayase.core.failpoints import reach
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.runtime.spark_io.published_ranges import SparkRange, SparkRanges
from hayase.runtime.spark_io.range_frames import RangeFrames
from hayase.runtime.spark_io.source_query import POOL
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.failure import part_failure
from hayase.storage.blobs import BlobStore
from hayase.topology.nodes import SparkSink

_LOG = logging.getLogger("hayase.runtime")
_POLL_S = 0.2
_BROKER_POLL_S = 0.5
_CANCEL_S = 10.0


class SparkSinkThread:
    """One per `to_spark` and run of the application.

    Args:
        sink: the sink.
        app: the application.
        blobs: its checkpoint.
        control: tells whether it is paused.
        session: for the frames alone.
        options: by which workers find the application.
        spark_log: named in errors.
    """

    def __init__(
        self,
        sink: SparkSink,
        app: AppSpec,
        blobs: BlobStore,
        control: DriverControl,
        session: SparkSession,
        options: Mapping[str, str],
        spark_log: Path,
    ) -> None:
        self._sink = sink
        self._app = app
        self._blobs = blobs
        self._control = control
        self._session = session
        self._options = options
        self._spark_log = spark_log
        self._frames: RangeFrames | None = None
        self._thread: threading.Thread | None = None
        self._failure: HayaseError | None = None
        self._woken = threading.Event()
        self._stopping = False
        self._interrupted = False
        self._finishing = False
        self._waiting = False
        self._purge_at = time.monotonic() + app.purge_interval_ms / 1000
        self._tag = f"{app.application_id}-{sink.name}"

    def prepare(self) -> None:
        """Find out what the frames look like.

        Raises:
            TopologyError: `INVALID_SPARK_FRAME`: Spark has no type for a field.
        """
        serdes = self._app.spark_serdes[self._sink.topic]
        self._frames = RangeFrames.make(self._session, self._options, self._sink.name, self._sink.topic, serdes)

    def start(self) -> None:
        """Begin to write, with the range that was left open if there is one."""
        self._failure = None
        self._thread = threading.Thread(target=self._run, name=f"hayase-to-spark-{self._sink.name}", daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        """Whether it is at work."""
        return self._thread is not None and self._thread.is_alive()

    def error(self) -> HayaseError | None:
        """Why it ended, if it failed. `None` while it is stopped in mid-write."""
        return self._failure

    def finish(self) -> None:
        """Nothing more comes: write what is there, then end."""
        self._finishing = True
        self._woken.set()

    def request_stop(self) -> None:
        """Begin no new range."""
        self._stopping = True
        self._woken.set()

    def stop(self, deadline: float) -> bool:
        """Stop between ranges; in mid-write after the deadline (monotonic). Whether it was between ranges."""
        self.request_stop()
        if self._thread is None:
            return True
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if not self._thread.is_alive():
            return True
        self._interrupted = True
        try:
            self._session.interruptTag(self._tag)
        except Exception as error:  # Spark may be gone already
            _LOG.debug("to_spark %r was not interrupted: %s", self._sink.name, error)
        self._thread.join(_CANCEL_S)
        return False

    def _run(self) -> None:
        log: Log | None = None
        try:
            self._session.addTag(self._tag)
            self._session.sparkContext.setLocalProperty(POOL, self._tag)
            log = open_log(self._app.log)
            self._write_all(SparkRanges(self._blobs, log, self._sink.name, self._sink.topic, self._sink.records_max))
        except HayaseError as error:
            self._failure = error
        except Exception as error:  # Spark may be torn down beneath us
            what = f"to_spark {self._sink.name!r}"
            reason = f"{type(error).__name__}: {error}"
            self._failure = None if self._stopping else part_failure(reason, "SPARK_SINK_FAILED", what, self._spark_log)
        finally:
            if log is not None:
                log.close()

    def _write_all(self, ranges: SparkRanges) -> None:
        while not self._stopping:
            if self._control.pause_requested():
                self._woken.wait(_POLL_S)
                continue
            begun, finishing = time.monotonic(), self._finishing
            try:
                more = finishing and ranges.unfinished()
                next_range = ranges.next()
            except LogError as error:
                self._wait_for_brokers(error)
                continue
            self._waiting = False
            if next_range is None:
                if finishing and not more:
                    return
                self._woken.wait(_POLL_S if not finishing else _POLL_S / 10)
                continue
            if not self._write(next_range):
                return
            ranges.done(next_range)
            self._purge(ranges, next_range)
            if not finishing:
                self._woken.wait(max(0.0, begun + self._sink.interval_ms / 1000 - time.monotonic()))

    def _write(self, wanted: SparkRange) -> bool:
        """Call the user's writer; whether it succeeded. If it was interrupted, it has not, whatever it says."""
        assert self._frames is not None
        reach("before_spark_write", bundle=self._sink.name, epoch=wanted.number)
        try:
            self._sink.write(self._frames.frame(wanted), wanted.number)
        except Exception as error:  # the user's function may raise anything
            if self._interrupted:
                return False
            reason = str(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
            what = f"the writer of to_spark {self._sink.name!r}, at number {wanted.number},"
            raise part_failure(reason, "SPARK_SINK_FAILED", what, self._spark_log) from error
        reach("after_spark_write", bundle=self._sink.name, epoch=wanted.number)
        return not self._interrupted

    def _purge(self, ranges: SparkRanges, written: SparkRange) -> None:
        if time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + self._app.purge_interval_ms / 1000
        try:
            ranges.purge(written)
        except LogError as error:  # the next purge deletes it
            _LOG.warning("the topic of to_spark %r was not purged: %s", self._sink.name, error)

    def _wait_for_brokers(self, error: LogError) -> None:
        """As the planner of epochs does, however long it takes: nothing is lost by waiting."""
        if error.condition != "BROKER_UNAVAILABLE":
            raise error
        if not self._waiting:
            _LOG.warning("to_spark %r waits: %s", self._sink.name, error)
        self._waiting = True
        time.sleep(_BROKER_POLL_S)
