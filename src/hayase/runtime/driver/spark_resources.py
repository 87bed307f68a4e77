"""What a run has of one Spark application: the session, and all that lives and ends with its JVM but the query."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark.errors import PySparkException

from hayase.core.private_files import umask_of
from hayase.runtime.driver.core_contention import CoreContention
from hayase.runtime.driver.jvm import LOST
from hayase.runtime.driver.query import wake_workers
from hayase.runtime.driver.run import Run, quietly
from hayase.runtime.driver.session import HADOOP_UMASK, SessionUse
from hayase.runtime.spark_io.spark_io import FAIR, SparkIO, has_spark_io
from hayase.runtime.wire.app_spec import AppSpec
from hayase.runtime.wire.failure import start_failure
from hayase.storage.blobs import BlobStore
from hayase.topology.topology import Topology

SPARK_ERRORS: tuple[type[Exception], ...] = (*LOST, PySparkException)
"""What calls of Spark raise when the query has failed, or its JVM is gone."""


class SparkResources:
    """Opened at the start of a run, and again where Spark's JVM has ended.

    Args:
        run: the run.
        app: the application.
        blobs: its checkpoint.
        settings: the user's `spark.*`.
        topology: with the functions, which are not shipped.
        options: by which workers find the application.
        interval_ms: how often the frames of `from_spark` are read.
        bounded: to the ends of the input as they are now.

    Attributes:
        session: the application's use of the session.
        io: the frames of `from_spark` and `to_spark`.

    Raises:
        MissingRequirementError: there is no Java runtime.
        ConfigError: MASTER_UNREACHABLE.
        TopologyError, ProcessingError: a frame cannot be made, or not be used.
    """

    def __init__(
        self,
        run: Run,
        app: AppSpec,
        blobs: BlobStore,
        settings: Mapping[str, str],
        topology: Topology,
        *,
        options: Mapping[str, str],
        interval_ms: int,
        bounded: bool,
    ) -> None:
        if has_spark_io(topology):
            settings = {**FAIR, **settings}
        else:  # what Spark writes is its own alone
            settings = {HADOOP_UMASK: f"{umask_of(run.folder.parent):03o}", **settings}
        try:
            self.session = SessionUse(app.application_id, app.slots, settings, run.spark_log)
        except SPARK_ERRORS as error:
            raise start_failure(str(error), run.spark_log) from error
        session = self.session
        try:
            self._contention: CoreContention | None = None
            if app.span_max_ms > 0:
                self._contention = CoreContention(
                    session.active_jobs, lambda: session.shared, session.executors, run.control.request_yield
                )
            self._waking: threading.Thread | None = None
            if session.started:
                tasks = app.slots if app.cluster else 1
                self._waking = threading.Thread(
                    target=wake_workers, args=(session.session, tasks), name="hayase-wake", daemon=True
                )
                self._waking.start()
            self.io = SparkIO(
                topology, app, blobs, run.control, session.session, settings, options, run.folder, run.spark_log,
                interval_ms=interval_ms, bounded=bounded,
            )  # fmt: skip
        except BaseException:
            session.release()
            raise

    def check_contention(self) -> None:
        """Have the tasks give way where others wait for the cores that they hold."""
        if self._contention is not None and not (self._waking is not None and self._waking.is_alive()):
            self._contention.check()

    def close(self) -> None:
        """Let go of all. Never raises: what cannot be closed because Spark is gone has ended with it."""
        quietly("what ran beside the query could not be closed", self.io.close)
        quietly("Spark could not be let go", self.session.release)
