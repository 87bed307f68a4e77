"""The Spark session of an application, with the settings that matter here.

`docs/decisions` says what each one was measured to do.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from hayase.core.errors import ConfigError
from hayase.core.java import JavaHome, find_java, spark_java_home
from hayase.core.private_files import make_folder, umask_of
from hayase.core.spark_home import light_spark_home
from hayase.runtime.driver.class_archive import archive_options, make_archive_in_background
from hayase.runtime.driver.jvm import LOST, Jvm, expect_no_end, forget_ended
from hayase.runtime.driver.master import (
    BIND_ADDRESS,
    DRIVER_HOST,
    MASTER,
    WORKER_PYTHON,
    cluster_settings,
    cluster_slots,
    is_cluster,
    known_settings,
)
from hayase.runtime.driver.source_processes import end_source_processes
from hayase.runtime.source import EpochSource
from hayase.runtime.worker.jvm_gateway import folder_of_jvm, launch_jvm

_LOG = logging.getLogger("hayase.runtime")

_GONE: tuple[type[Exception], ...] = (AttributeError, *LOST)
_TASK_ATTEMPTS = 4
# Of the small JVM that only puts together the command line of the real one.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
HADOOP_UMASK = "spark.hadoop.fs.permissions.umask-mode"
"""Hadoop's file systems give files the mode that this says, whatever the umask of the process is."""
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
    "spark.python.daemon.module": "hayase.runtime.worker.daemon",
    # What a worker left behind that crashed, or was ended because it hung, becomes part of the task's error.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # Spark's own log of epochs is recreated at every start; ours is the one that counts.
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A payload is up to 8 MB; the default of 10,000 rows a batch would not fit in memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # Rows that the driver collects come over a socket; the default of 15 s to connect is short for a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.memory": "1g",
    # The JVM only schedules and shuffles: compiling hot code twice would cost more than it ever saves.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
LOCAL_DIR = "spark.local.dir"
CONNECTOR_JOBS = "hayase-connectors"
"""The job group of slots of connectors: such a job lasts as long as its worker, and ends no spans."""
_SOCKET_DIR = "spark.python.unix.domain.socket.dir"
_LOCAL_SETTINGS: Mapping[str, str] = {
    DRIVER_HOST: "127.0.0.1",
    BIND_ADDRESS: "127.0.0.1",
    # Other users of the machine can connect to loopback. Spark makes up the secret, in memory.
    "spark.authenticate": "true",
}


def settings_of_session(overrides: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings as far as they are known.

    Of the session that is there, else of `spark-submit` and `overrides`.
    """
    session = existing_session()
    return dict(session.sparkContext.getConf().getAll()) if session is not None else known_settings(overrides)


def default_slots(settings: Mapping[str, str]) -> int:
    """Cores that Spark has: on this machine those that this process may use.

    Args:
        settings: see `settings_of_session`.

    Raises:
        ConfigError: MISSING_SETTING: on a cluster, if they do not say it.
    """
    if is_cluster(settings.get(MASTER, "")):
        session = existing_session()
        return session.sparkContext.defaultParallelism if session is not None else cluster_slots(settings)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_launched: list[tuple[JavaHome, str, dict[str, str]]] = []
"""The Java that runs a local session of ours, the options given for it, and the environment as it was.

Kept until the session ends.
"""


class _Shared:
    """The session that applications of this process use now."""

    def __init__(self, context: object, *, ours: bool) -> None:
        self.context = context
        self.ours = ours
        self.uses = 0
        self.slots_of_connectors: list[int] = []


class SessionUse:
    """One application's use of the process's session: the last to let go stops it, if Hayase started it.

    Attributes:
        started: this use started the session, so nothing has run in it yet.
    """

    _shared: ClassVar[_Shared | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        application_id: str,
        slots: int,
        overrides: Mapping[str, str],
        spark_log: Path,
        *,
        of_connectors: bool = False,
    ) -> None:
        """Take the session there is, or start one; see `build_session`.

        Args:
            application_id: Spark's name for the application.
            slots: that it needs at once.
            overrides: `spark.*` settings.
            spark_log: file for what the JVM has to say.
            of_connectors: its only job, of the group `CONNECTOR_JOBS`, keeps a core for each slot all the time.

        Raises:
            ConfigError: `NO_CORES_LEFT`: slots of connectors would keep all cores of the session that is there.
        """
        with SessionUse._lock:
            self.started = existing_session() is None
            self.session = build_session(application_id, slots, overrides, spark_log)
            self._jvm = Jvm()
            self._slots, self._of_connectors = slots, of_connectors
            context = self.session.sparkContext
            use = SessionUse._shared
            if use is None or use.context is not context:
                use = _Shared(context, ours=self.started)
            if not self.started:
                _check_cores(context, sum(use.slots_of_connectors) + (slots if of_connectors else 0))
            SessionUse._shared = use
            use.uses += 1
            if of_connectors:
                use.slots_of_connectors.append(slots)
            self._use: _Shared | None = use

    @property
    def shared(self) -> bool:
        """Whether others use cores of the session that this application needs.

        Other applications of this process do; slots of connectors only where cores for both are lacking.
        """
        use = self._use
        if use is None:
            return False
        held = use.slots_of_connectors
        if use.uses - len(held) > 1:
            return True
        return bool(held) and sum(held) + self._slots > self.session.sparkContext.defaultParallelism

    def end(self, *, wait: bool = False) -> str | None:
        """How Spark's JVM ended; `None` as long as it runs. See `Jvm.end`."""
        return self._jvm.end(wait=wait)

    def active_jobs(self) -> int:
        """How many jobs are queued or at work, of all applications; those of connectors do not count."""
        tracker = self.session.sparkContext.statusTracker()
        jobs = set(tracker.getActiveJobsIds())
        if self._use is not None and self._use.slots_of_connectors:
            jobs -= set(tracker.getJobIdsForGroup(CONNECTOR_JOBS))
        return len(jobs)

    def executors(self) -> frozenset[str]:
        """The addresses of the processes that run tasks, the driver's own included; none once Spark is stopped."""
        try:
            status = self.session.sparkContext._jsc.sc().getExecutorMemoryStatus()
        except _GONE:  # it is stopped now
            return frozenset()
        return frozenset(status.keySet().mkString(" ").split())

    def release(self) -> None:
        """Let go; calling it again does nothing. Never raises: of a session that cannot be stopped nothing is kept."""
        with SessionUse._lock:
            use, self._use = self._use, None
            if use is None:
                return
            use.uses -= 1
            if self._of_connectors:
                use.slots_of_connectors.remove(self._slots)
            if use.uses == 0 and use is SessionUse._shared:
                SessionUse._shared = None
            if use.uses == 0 and use.ours and self._jvm.end() is None:
                if self._jvm.pid is not None:
                    end_source_processes(self._jvm.pid)
                try:
                    self.session.stop()
                except LOST as error:
                    level = logging.WARNING if self._jvm.end(wait=True) is None else logging.DEBUG
                    _LOG.log(level, "Spark's session could not be stopped: %s", error)
            if self._jvm.end() is not None:
                self._jvm.forget()
            if use.uses == 0 and use.ours and _launched:
                make_archive_in_background(*_launched.pop())


def _check_cores(context: SparkContext, held: int) -> None:
    """Refuse what would leave applications of a local session without a core.

    Args:
        context: of the session.
        held: slots of connectors, each of which keeps a core.

    Raises:
        ConfigError: `NO_CORES_LEFT`.
    """
    cores = context.defaultParallelism
    if held and held >= cores and not is_cluster(context.master or ""):
        raise ConfigError(
            "NO_CORES_LEFT",
            f"{held} slots of connectors keep a core each, and the Spark session of this process has {cores}, so its "
            f"applications would never get one; start the session with more, as spark.master=local[{held + 2}], or "
            "give the connectors fewer slots",
            setting=MASTER,
        )


def existing_session() -> SparkSession | None:
    """The session of this process, whichever thread started it; none whose JVM has ended."""
    forget_ended()
    try:
        session: SparkSession = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return session


def build_session(application_id: str, slots: int, overrides: Mapping[str, str], spark_log: Path) -> SparkSession:
    """A local session with as many cores as slots, or one on the cluster that `spark.master` names.

    One that is there is taken as it is. Settings of `spark-submit` replace ours, and are replaced by `overrides`.

    Args:
        application_id: Spark's name for the application.
        slots: cores.
        overrides: `spark.*` settings; Java options are added to ours, the others replace ours.
        spark_log: file for what the JVM has to say.

    Raises:
        MissingRequirementError: there is no Java runtime.
        ConfigError: MASTER_UNREACHABLE.
    """
    session = existing_session()
    if session is None:
        expect_no_end()
        java, environment = find_java(), dict(os.environ)
        os.environ["JAVA_HOME"] = str(spark_java_home(java))
        known = known_settings(overrides)
        if MASTER not in overrides and not is_cluster(
            known.get(MASTER, "")
        ):  # nor does `spark-submit` say more than "here"
            known[MASTER] = f"local[{slots},{_TASK_ATTEMPTS}]"
        if WORKER_PYTHON in known:
            os.environ["PYSPARK_PYTHON"] = known[WORKER_PYTHON]
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Inherited by the workers: each of them is one of `slots` that share the cores.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS)
        if not known[MASTER].startswith("yarn") and (home := light_spark_home()):
            os.environ.setdefault("SPARK_HOME", str(home))
        private = folder_of_jvm()
        if is_cluster(known[MASTER]):
            derived = cluster_settings(known, slots)
        else:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            derived = {**_LOCAL_SETTINGS, LOCAL_DIR: str(_local_dir(spark_log.parent)), _SOCKET_DIR: private}
        builder = SparkSession.builder.appName(application_id)
        logging_options = f'"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}" "-Dhayase.spark.log={spark_log}"'
        given = known.get(JAVA_OPTIONS, "")
        archived = archive_options(java, given)
        temporaries = f'"-Djava.io.tmpdir={private}"'
        options = (SETTINGS[JAVA_OPTIONS], archived, logging_options, temporaries, given)
        java_options = " ".join(filter(None, options))
        settings = {**SETTINGS, **derived, **known, JAVA_OPTIONS: java_options}
        launch_jvm(settings, umask_of(spark_log.parent))
        _launched[:] = [] if is_cluster(known[MASTER]) else [(java, given, environment)]
        for key, value in settings.items():
            builder = builder.config(key, value)
        with _own_interrupt():
            session = builder.getOrCreate()
    session.dataSource.register(EpochSource)
    return session


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep the program's handler of Ctrl-C: Spark's cancels the jobs at once, which looks like a crash."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


_local_dirs: list[int] = []
"""Locks of the folders of this process's sessions."""


def _local_dir(folder: Path) -> Path:
    """Where a session of Spark's keeps shuffled records: others could read them in its own folders in `/tmp`.

    Each has its own, locked for as long as its process lives: it may outlive the application that began it, and other
    applications go on with it. What ended sessions have left is removed.
    """
    sessions = folder / "spark-local"
    make_folder(sessions)
    for left in sessions.iterdir():
        descriptor = _locked(left)
        if descriptor is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)
    while True:
        folder_of_session = sessions / uuid.uuid4().hex
        make_folder(folder_of_session)
        descriptor = _locked(folder_of_session)
        # Another process may have taken it for one that was left.
        if descriptor is not None and folder_of_session.exists():
            _local_dirs.append(descriptor)
            return folder_of_session


def _locked(folder: Path) -> int | None:
    """A descriptor of a folder that no other process has locked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
