"""The Spark session of an application, with the settings that matter here. `docs/decisions` says what each one was measured to do."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from hayase.core.java import find_java
from hayase.runtime.source import EpochSource

_LOG = logging.getLogger("hayase.runtime")

_TASK_ATTEMPTS = 4

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
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def default_slots() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def build_session(application_id: str, slots: int, overrides: Mapping[str, str]) -> SparkSession:
    """A local session with as many cores as slots, or what `spark.master` says. An active session is taken as it is.

    Raises:
        MissingRequirementError: there is no Java runtime.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        java = find_java()
        os.environ["JAVA_HOME"] = str(java.java_home)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Inherited by the workers: each of them is one of `slots` that share the cores.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.appName(application_id).master(f"local[{slots},{_TASK_ATTEMPTS}]")
        for key, value in {**SETTINGS, **overrides}.items():
            builder = builder.config(key, value)
        active = builder.getOrCreate()
        active.sparkContext.setLogLevel(overrides.get("spark.log.level", SETTINGS["spark.log.level"]))
    active.dataSource.register(EpochSource)
    return active
