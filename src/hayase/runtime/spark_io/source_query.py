"""The source query of a `from_spark`.

A Spark query of its own that writes a streaming frame's rows to an internal topic, exactly once.

An epoch of a source query is a micro-batch of that query, its marker carries the digest of the offsets that Spark read.
These are published before the rows are; so a batch that is run again is the same batch, and the marker says whether it
was written.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hayase.core.errors import CheckpointError, HayaseError, StreamsStoppedError, TopologyError
from hayase.core.failpoints import reach
from hayase.core.time import Clock, SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import EpochWriter, Log, Marker
from hayase.runtime.spark_io.frame_columns import FrameColumns
from hayase.runtime.spark_io.query_checkpoint import QueryCheckpoint
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.driver_control import DriverControl
from hayase.runtime.wire.failure import one_line, part_failure
from hayase.serde.protocol import Serde
from hayase.storage.blobs import BlobStore
from hayase.topology.nodes import SourceNode, SparkSource

_LOG = logging.getLogger("hayase.runtime")
POOL = "spark.scheduler.pool"
"""Property of a thread: which jobs share their part of the cores, where Spark's scheduler is fair."""
_POLL_S = 0.02


class SparkSourceQuery:
    """One per `from_spark` and run of the application.

    Args:
        source: the source.
        app: the application.
        blobs: its checkpoint.
        control: tells whether it is paused.
        session: for the frame alone.
        folder: where Spark keeps its own account of the query; made if need be.
        spark_log: named in errors.
        plan_position: of the source query among the bundles and source queries of the application, always the same.
        clock: gives rows without a timestamp theirs.
    """

    def __init__(
        self,
        source: SparkSource,
        app: AppSpec,
        blobs: BlobStore,
        control: DriverControl,
        session: SparkSession,
        folder: Path,
        spark_log: Path,
        plan_position: int,
        clock: Clock | None = None,
    ) -> None:
        self._source = source
        self._app = app
        self._control = control
        self._session = session
        self._folder = folder
        self._spark_log = spark_log
        self._plan_position = plan_position
        self._clock = clock or SystemClock()
        self._bundle = f"spark-{source.name}"
        self._what = f"from_spark {source.name!r}"
        self._checkpoint = QueryCheckpoint(blobs, source.name, folder)
        self._frame: DataFrame | None = None
        self._columns: FrameColumns | None = None
        self._query: StreamingQuery | None = None
        self._failure: HayaseError | None = None
        self._log: Log | None = None
        self._writer: EpochWriter | None = None
        self._partitions = 0
        self._stopping = False
        self._batch = threading.Lock()
        """Held while a micro-batch is at work."""

    def prepare(self) -> None:
        """Make the frame, and Spark's folder as it was.

        Raises:
            TopologyError: `INVALID_SPARK_FRAME`.
            ProcessingError: `SPARK_SOURCE_FAILED`: the user's function failed.
        """
        try:
            frame = self._source.frame(self._session)
        except HayaseError:
            raise
        except Exception as error:  # the user's function may raise anything
            raise part_failure(
                _message_of(error), "SPARK_SOURCE_FAILED", f"the function of {self._what}", self._spark_log
            ) from error
        if not isinstance(frame, DataFrame) or not frame.isStreaming:
            given = (
                "a DataFrame that is not streaming (use spark.readStream)"
                if isinstance(frame, DataFrame)
                else repr(frame)
            )
            raise TopologyError(
                "INVALID_SPARK_FRAME",
                f"the function of {self._what} must return a streaming DataFrame; it returned {one_line(given)}",
            )
        self._columns = FrameColumns(self._source.name, frame.schema, *self._serdes())
        self._frame = frame
        self._checkpoint.restore()

    def start(self, *, interval_ms: int, bounded: bool) -> None:
        """Start the query: to the end of what the source has now (`bounded`), or without end.

        Raises:
            TopologyError: `INVALID_SPARK_FRAME`: Spark cannot run the frame as a stream.
        """
        assert self._frame is not None
        self._failure = None
        writer = self._frame.writeStream.foreachBatch(self._take).outputMode(self._source.output_mode)
        writer = writer.queryName(f"{self._app.application_id}-{self._source.name}")
        writer = writer.option("checkpointLocation", self._folder.as_uri())
        writer = (
            writer.trigger(availableNow=True)
            if bounded
            else writer.trigger(processingTime=f"{interval_ms} milliseconds")
        )
        context = self._session.sparkContext
        context.setLocalProperty(POOL, self._bundle)  # the query's thread inherits it
        try:
            self._query = writer.start()
        except PySparkException as error:
            raise TopologyError(
                "INVALID_SPARK_FRAME", f"Spark cannot run the frame of {self._what}: {one_line(str(error))}"
            ) from error
        finally:
            context.setLocalProperty(POOL, None)  # type: ignore[arg-type] # unsets it, as its documentation says

    @property
    def active(self) -> bool:
        """Whether the query is at work."""
        return self._query is not None and bool(self._query.isActive)

    @property
    def finished(self) -> bool:
        """Whether a bounded query has come to its end."""
        return self._query is not None and not self._query.isActive and self.error() is None

    def error(self) -> HayaseError | None:
        """Why it ended, if it failed. `None` while it is stopped."""
        if self._query is None or self._stopping:
            return None
        failure = self._query.exception()
        if failure is None:
            return None
        return self._failure or part_failure(str(failure), "SPARK_SOURCE_FAILED", self._what, self._spark_log)

    def request_stop(self) -> None:
        """Begin no new batch."""
        self._stopping = True

    def stop(self, deadline: float) -> bool:
        """Stop between batches; in mid-batch after the deadline (monotonic). Whether it was between batches."""
        self._stopping = True
        query = self._query
        if query is None or not query.isActive:
            return True
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        between = self._batch.acquire(timeout=max(0.0, deadline - time.monotonic()))
        if between:
            self._batch.release()  # one that begins now sees that it must not; Spark waits for it
        try:
            query.stop()
        except PySparkException:
            return False  # the next start runs the batch again
        return between

    def close(self) -> None:
        """Stop at once if need be, keep what Spark knows, and let go of the log."""
        try:
            self.stop(time.monotonic())
        except Exception as error:  # Spark may be gone already
            _LOG.debug("%s was not stopped: %s", self._what, error)
        if self._query is not None and self._batch.acquire(timeout=_POLL_S):
            try:
                self._checkpoint.settle()
            except HayaseError as error:  # the next start runs the last batch again, and finds that it is written
                _LOG.warning("%s: what Spark knows was not kept: %s", self._what, error)
            finally:
                self._batch.release()
        for opened in (self._writer, self._log):
            if opened is not None:
                opened.close()

    def _serdes(self) -> tuple[Serde, Serde]:
        for node in self._app.topology.nodes:
            if isinstance(node, SourceNode) and self._source.topic in node.topics:
                assert node.key_serde is not None
                assert node.value_serde is not None
                return node.key_serde, node.value_serde
        raise AssertionError(self._source.topic)

    def _take(self, frame: DataFrame, batch: int) -> None:
        """A micro-batch, in a Py4J thread."""
        with self._batch:
            try:
                while self._control.pause_requested() and not self._stopping:
                    time.sleep(_POLL_S)
                if self._stopping:
                    raise StreamsStoppedError("STOPPING", f"{self._what} is being stopped")
                self._publish(frame, batch)
            except HayaseError as error:
                self._failure = error
                raise
            except Exception as error:  # of Spark, while it makes the rows; or of the user's code in the frame
                what = f"batch {batch} of {self._what}"
                self._failure = part_failure(_message_of(error), "SPARK_SOURCE_FAILED", what, self._spark_log)
                raise self._failure from error

    def _publish(self, frame: DataFrame, batch: int) -> None:
        assert self._columns is not None
        digest = self._checkpoint.keep(batch)
        reach("after_spark_offsets", bundle=self._source.name, epoch=batch)
        # Run also if it is written already: a frame with state must go through every batch.
        table = frame.toArrow()
        if len(table):
            writer = self._opened_writer()
            records = self._columns.records(table, self._source.topic, self._partitions, self._clock.now_ms())
            if self._app.exactly_once:
                marker = Marker(self._app.checkpoint_id, batch, digest)
                app = self._app.application_id
                try:
                    written = writer.publish_epoch(
                        app, self._bundle, marker, [records], plan_position=self._plan_position
                    )
                except CheckpointError as error:
                    raise self._differs(marker) from error
                if not written:
                    self._check_replay(marker)
            else:
                writer.append([records])
        reach("after_spark_publish", bundle=self._source.name, epoch=batch)

    def _check_replay(self, marker: Marker) -> None:
        """Check that what is in the topic is this batch, and not another one of the same number."""
        assert self._log is not None
        in_log = self._log.markers(self._app.application_id).get(self._bundle)
        if in_log != marker:
            raise self._differs(in_log)

    def _differs(self, in_log: Marker | None) -> CheckpointError:
        return CheckpointError(
            "SPARK_OFFSETS_DIFFER",
            f"{self._what} is at a batch whose topic holds batch {in_log.epoch if in_log else '?'} with other offsets: "
            "the checkpoint is older than the topic. Start over with `hayase app reset`",
        )

    def _opened_writer(self) -> EpochWriter:
        if self._log is None:
            self._log = open_log(self._app.log)
        if self._writer is None:
            self._writer = self._log.writer()
            self._partitions = self._log.describe([self._source.topic])[self._source.topic].partitions
        return self._writer


def _message_of(error: Exception) -> str:
    return str(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
