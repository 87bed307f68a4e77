"""The Spark session of an application, with the settings that matter here. `docs/decisions` says what each one was measured to do."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from hayase.core.java import find_java, spark_java_home
from hayase.core.spark_home import light_spark_home
from hayase.runtime.class_archive import archive_options
from hayase.runtime.source import EpochSource

_TASK_ATTEMPTS = 4
# Of the small JVM that only puts together the command line of the real one.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

SETTINGS: Mapping[str, str] = {
    # A task that fails is tried again in place; its steps are idempotent under one epoch.
    "spark.task.maxFailures": str(_TASK_ATTEMPTS),
    # Two attempts of one bundle are allowed for, but never wanted.
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    # Each saves tens of milliseconds per epoch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "hayase.runtime.daemon",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # Spark's own log of epochs is made anew at every start; ours is the one that counts.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A payload is up to 8 MB; the default of 10,000 rows a batch would not fit in memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # Rows that the driver collects come over a socket; the default of 15 s to connect is short for a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.memory": "1g",
    # The JVM only schedules and shuffles: compiling hot code twice would cost more than it ever saves.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def default_slots() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SessionUse:
    """One application's use of the process's session: the last to let go stops it, if Hayase started it.

    Attributes:
        started: this use started the session, so nothing has run in it yet.
    """

    _users = 0
    _lock = threading.Lock()

    def __init__(self, application_id: str, slots: int, overrides: Mapping[str, str], spark_log: Path) -> None:
        """Take the session there is, or start one; see `build_session`."""
        with SessionUse._lock:
            self.started = existing_session() is None
            self.session = build_session(application_id, slots, overrides, spark_log)
            self._counted = self.started or SessionUse._users > 0
            SessionUse._users += self._counted

    def release(self) -> None:
        """Let go; calling it again does nothing."""
        with SessionUse._lock:
            if not self._counted:
                return
            self._counted = False
            SessionUse._users -= 1
            if SessionUse._users == 0:
                self.session.stop()


def existing_session() -> SparkSession | None:
    """The session of this process, whichever thread started it."""
    try:
        found: SparkSession = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return found


def build_session(application_id: str, slots: int, overrides: Mapping[str, str], spark_log: Path) -> SparkSession:
    """A local session with as many cores as slots, or what `spark.master` says. One that is there is taken as it is.

    Args:
        application_id: Spark's name for the application.
        slots: cores.
        overrides: `spark.*` settings; Java options are added to ours, the others replace ours.
        spark_log: file for what the JVM has to say.

    Raises:
        MissingRequirementError: there is no Java runtime.
    """
    session = existing_session()
    if session is None:
        java = find_java()
        os.environ["JAVA_HOME"] = str(spark_java_home(java))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Inherited by the workers: each of them is one of `slots` that share the cores.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if not overrides.get("spark.master", "").startswith("yarn") and (home := light_spark_home()):
            os.environ.setdefault("SPARK_HOME", str(home))
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
        builder = SparkSession.builder.appName(application_id).master(f"local[{slots},{_TASK_ATTEMPTS}]")
        logging_options = f'"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}" "-Dhayase.spark.log={spark_log}"'
        given = overrides.get(JAVA_OPTIONS, "")
        archived = archive_options(java, given)
        java_options = " ".join(filter(None, (SETTINGS[JAVA_OPTIONS], archived, logging_options, given)))
        for key, value in {**SETTINGS, **overrides, JAVA_OPTIONS: java_options}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    session.dataSource.register(EpochSource)
    return session
