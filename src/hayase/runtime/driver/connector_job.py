"""The Spark job of a worker of connectors: its tasks are slots."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from hayase.connect.slots.pool import ConnectorSlotPool
from hayase.core.errors import ConfigError, HayaseError, ProcessingError
from hayase.core.private_files import make_folder, umask_of
from hayase.runtime.driver.master import MASTER, driver_addresses, is_cluster, sends_in_clear
from hayase.runtime.driver.run import quietly
from hayase.runtime.driver.session import CONNECTOR_JOBS, HADOOP_UMASK, SessionUse, default_slots, settings_of_session
from hayase.runtime.driver.spark_resources import SPARK_ERRORS
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.failure import part_failure, start_failure
from hayase.runtime.wire.log_relay import LogRelay
from hayase.runtime.wire.span_protocol import SpanListener
from hayase.runtime.worker.connector_slot import run_connector_slot

_LOG = logging.getLogger("hayase.runtime")
_FAILURES_MAX = 1_000_000
"""Spark counts how often a task failed for as long as its job lasts, and this job lasts as long as the worker."""
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_END_S = 15.0


class ConnectorJob:
    """Started by `start`, goes on until `close`: a job that fails, or whose JVM ends, is started again.

    Where the process has a Spark session, as that of a `StreamsApp`, the job runs in it; it needs a core for each slot
    beside those of the application, whose spans then go on.

    Args:
        name: of the Spark application.
        folder: for what Spark says, and what it keeps; of this worker alone.
        spark_settings: the user's `spark.*`.
        slots: how many; `None`: as many as Spark has cores.
        log_level: the least level of what slots send.

    Attributes:
        pool: runs tasks of connectors in the slots.

    Raises:
        ConfigError: `ENCRYPTION_NOT_KEPT`, `MISSING_SETTING`, `MASTER_UNREACHABLE`.
    """

    def __init__(
        self, name: str, folder: Path, spark_settings: Mapping[str, str], slots: int | None, *, log_level: str
    ) -> None:
        known = settings_of_session(spark_settings)
        if sends_in_clear(known):
            raise ConfigError(
                "ENCRYPTION_NOT_KEPT",
                "Spark is set to encrypt, and the worker sends its slots configurations of connectors, with passwords, "
                "unencrypted by TCP; run it on one machine (--master 'local[4]'), or on a network that needs no "
                "encryption, without spark.network.crypto.enabled, spark.ssl.rpc.enabled and "
                "spark.authenticate.enableSaslEncryption",
                setting="spark.network.crypto.enabled",
            )
        self._name = name
        self._slots = slots or _local_slots(known.get(MASTER, "")) or default_slots(known)
        make_folder(folder)
        self.spark_log = folder / "spark.log"
        self._settings = {
            "spark.task.maxFailures": str(_FAILURES_MAX),
            HADOOP_UMASK: f"{umask_of(folder):03o}",
            **spark_settings,
        }
        if not is_cluster(known.get(MASTER, "")):
            self._settings[MASTER] = f"local[{self._slots},{_FAILURES_MAX}]"
        self._log_level = log_level
        host, bind = driver_addresses(known)
        self._relay = LogRelay(host, bind)
        listener = SpanListener(RunEndpoints("", str(self._relay.folder), self._relay.address, host, bind), self._slots)
        self._address = listener.address
        self.pool = ConnectorSlotPool(listener, self._slots)
        self._session: SessionUse | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hayase-connector-job", daemon=True)

    def start(self) -> None:
        """Start Spark; the slots come soon after.

        Raises:
            HayaseError: Spark does not start.
        """
        try:
            self._open()
        except SPARK_ERRORS as error:
            raise start_failure(str(error), self.spark_log) from error
        self._thread.start()

    def close(self) -> None:
        """End the job, and Spark; the worker has stopped its tasks. Never raises."""
        self._closing.set()
        quietly("the slots could not be ended", self.pool.close)
        if self._thread.is_alive():
            self._thread.join(_END_S)
        if self._session is not None:
            quietly("Spark could not be let go", self._session.release)
        quietly("the relay of logs could not be closed", self._relay.close)

    def _open(self) -> None:
        self._session = SessionUse(self._name, self._slots, self._settings, self.spark_log, of_connectors=True)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closing.is_set():
            error = self._failure()
            if self._closing.is_set():
                return
            if error is None:  # the slots have returned, though the worker goes on
                pause_s = _FIRST_PAUSE_S
            else:
                _LOG.error("the slots of the connectors are gone, and start again in %g s: %s", pause_s, error)
            self._closing.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _failure(self) -> HayaseError | None:
        """Run the job to its end; why it failed, if it did."""
        try:
            if self._session is not None and self._session.end() is not None:
                self._session.release()
                self._session = None
            if self._session is None:
                self._open()
            assert self._session is not None
            context = self._session.session.sparkContext
            work = partial(run_connector_slot, self._address, self._relay.address, self._log_level)
            context.setJobGroup(CONNECTOR_JOBS, self._name)  # of this thread
            context.parallelize(range(self._slots), self._slots).mapPartitions(work).count()
        except HayaseError as error:
            return error
        except Exception as error:  # PySpark raises many things when its session or the JVM ends meanwhile
            return None if self._closing.is_set() else self._meaning_of(error)
        return None

    def _meaning_of(self, error: Exception) -> HayaseError:
        end = None if self._session is None else self._session.end(wait=True)
        if end is not None:
            return ProcessingError("SPARK_DIED", f"Spark's JVM ended ({end}); what it said last is in {self.spark_log}")
        return part_failure(str(error), "SPARK_FAILED", "the job of the slots", self.spark_log)


def _local_slots(master: str) -> int | None:
    """The slots of a local master; `None` if it does not say how many.

    Example:
        >>> (
        ...     _local_slots("local[3]"),
        ...     _local_slots("local[2,4]"),
        ...     _local_slots("local[*]"),
        ...     _local_slots("spark://h:7077"),
        ... )
        (3, 2, None, None)
    """
    match = _LOCAL.fullmatch(master.strip())
    if match is None or match[1] in (None, "*"):
        return None
    return int(match[1])
