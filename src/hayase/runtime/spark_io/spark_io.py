"""What of an application runs beside its query: the source queries of `from_spark`, the sink threads of `to_spark`.

Most applications have none, so what they need is imported where there are some.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from hayase.core.errors import HayaseError
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.driver_control import DriverControl
from hayase.storage.blobs import BlobStore
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.runtime.spark_io.sink_thread import SparkSinkThread
    from hayase.runtime.spark_io.source_query import SparkSourceQuery

_TIME_ZONE = "spark.sql.session.timeZone"
_ITS_OWN = {
    # Frames are converted by it, so no setting of the user may change it.
    _TIME_ZONE: "UTC",
    # Rows here are the user's, not our payloads of up to 8 MB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.adaptive.enabled": "true",
    # Only the batch that is at work may have to be run again, and all that is kept is published.
    "spark.sql.streaming.minBatchesToRetain": "2",
}
FAIR = {"spark.scheduler.mode": "FAIR"}
"""For Spark's own setting: a long write must not keep the application's epochs waiting."""


def has_spark_io(topology: Topology) -> bool:
    """Whether it has a `from_spark` or a `to_spark`."""
    return bool(topology.spark_sources or topology.spark_sinks)


class SparkIO:
    """Source queries and sink threads of one run. One thread at a time, except for `request_stop`.

    Args:
        topology: with the functions, which are not shipped.
        app: the application.
        blobs: its checkpoint.
        control: of the run.
        session: the application's; each source and sink gets one of its own that shares its Spark.
        settings: the user's `spark.*`.
        options: by which workers find the application.
        folder: of the run.
        spark_log: named in errors.
        interval_ms: between micro-batches of the source queries.
        bounded: to the ends of the input as they are now.
    """

    def __init__(
        self,
        topology: Topology,
        app: AppSpec,
        blobs: BlobStore,
        control: DriverControl,
        session: SparkSession,
        settings: Mapping[str, str],
        options: Mapping[str, str],
        folder: Path,
        spark_log: Path,
        *,
        interval_ms: int,
        bounded: bool,
    ) -> None:
        def own() -> SparkSession:
            own_session = session.newSession()
            shuffles = {"spark.sql.shuffle.partitions": str(app.slots)}
            for key, value in {**_ITS_OWN, **shuffles}.items():
                if key == _TIME_ZONE or key not in settings:
                    own_session.conf.set(key, value)
            return own_session

        self._sources: list[SparkSourceQuery] = []
        self._sinks: list[SparkSinkThread] = []
        self._interval_ms, self._bounded = interval_ms, bounded
        if has_spark_io(topology):
            from hayase.runtime.spark_io.sink_thread import SparkSinkThread
            from hayase.runtime.spark_io.source_query import SparkSourceQuery

            bundles = len(app.plan.bundles)
            names = sorted(source.name for source in topology.spark_sources)
            for source in topology.spark_sources:
                where, position = folder / f"from-{source.name}", bundles + names.index(source.name)
                self._sources.append(SparkSourceQuery(source, app, blobs, control, own(), where, spark_log, position))
            for sink in topology.spark_sinks:
                self._sinks.append(SparkSinkThread(sink, app, blobs, control, own(), options, spark_log))

    def start(self) -> None:
        """Start all; nothing is started unless all can be.

        Raises:
            TopologyError, ProcessingError: a frame cannot be made, or not be used.
        """
        for part in self._parts:
            part.prepare()
        self.restart()

    def restart(self) -> None:
        """Start what is not at work: all at first, later what has failed."""
        for source in self._sources:
            if not source.active and not (self._bounded and source.finished):
                source.start(interval_ms=self._interval_ms, bounded=self._bounded)
        for sink in self._sinks:
            if not sink.active:
                sink.start()

    @property
    def _parts(self) -> list[SparkSourceQuery | SparkSinkThread]:
        return [*self._sources, *self._sinks]

    @property
    def sources_finished(self) -> bool:
        """Whether bounded source queries have come to their ends."""
        return all(source.finished for source in self._sources)

    def finish(self) -> bool:
        """Nothing more is written: whether sinks are still at work on what is left."""
        for sink in self._sinks:
            sink.finish()
        return any(sink.active for sink in self._sinks)

    def error(self) -> HayaseError | None:
        """Why one of them has failed; `None` if none has."""
        return next((error for part in self._parts if (error := part.error()) is not None), None)

    def request_stop(self) -> None:
        """Begin nothing new."""
        for part in self._parts:
            part.request_stop()

    def stop_sources(self, deadline: float) -> bool:
        """Stop source queries; whether all were between batches."""
        stopped = [source.stop(deadline) for source in self._sources]
        return all(stopped)

    def stop_sinks(self, deadline: float) -> bool:
        """Stop sink threads; whether all were between ranges."""
        stopped = [sink.stop(deadline) for sink in self._sinks]
        return all(stopped)

    def close(self) -> None:
        """Stop at once what is still at work, and let go of everything."""
        for source in self._sources:
            source.close()
        self.stop_sinks(time.monotonic())
