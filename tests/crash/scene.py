"""One application with its topics, checkpoint and state; started, killed, damaged and started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.crash import input as given
from tests.crash.app_under_test import build

from hayase import StreamsApp, StreamsConfig
from hayase.core.failpoints import VARIABLE
from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.storage.lmdb_env import close_environment

ROOT = Path(__file__).parents[2]
PATIENCE = float(os.environ.get("HAYASE_TEST_PATIENCE", "1"))
"""Times longer that everything may take, for machines with more to do than they can."""
RUN_TIMEOUT_S = 280.0 * PATIENCE
PAUSE_S = 240.0 * PATIENCE
EPOCH_RECORDS_MAX = 100
PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
_FENCE = b"fence"
EPOCHS_MIN = -(-len(given.records()) // EPOCH_RECORDS_MAX)
"""A run has at least so many epochs; how many more depends on its restarts."""


@dataclass(frozen=True, slots=True)
class Failpoint:
    """A place where something happens once; see `hayase.core.failpoints`. Without an epoch: the first time."""

    name: str
    action: str
    epoch: int | None = None
    bundle: str | None = None

    def __str__(self) -> str:
        where = "" if self.epoch is None else f" of epoch {self.epoch}"
        return f"{self.action} at {self.name}{where}" + (f", bundle {self.bundle}" if self.bundle else "")


@dataclass
class Started:
    """A process of the application."""

    process: subprocess.Popen[bytes]
    output: Path
    tokens: dict[Failpoint, Path]

    def wait(self, timeout_s: float = RUN_TIMEOUT_S) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)

    def fired(self, failpoint: Failpoint) -> bool:
        """Whether the application got there."""
        return self.tokens[failpoint].exists()

    def process_at(self, failpoint: Failpoint) -> int:
        """The process that got there."""
        wait_for(lambda: self.process.poll() is not None or bool(self._pid_at(failpoint)), 280, str(failpoint))
        assert self._pid_at(failpoint), f"{failpoint}: not reached\n{self.said()}"
        return int(self._pid_at(failpoint))

    def _pid_at(self, failpoint: Failpoint) -> str:
        return self.tokens[failpoint].read_text() if self.fired(failpoint) else ""

    def members(self) -> list[psutil.Process]:
        """All living processes of the session that it began: driver, JVM, daemon, planner and workers, also orphans."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def jvm(self) -> psutil.Process:
        """Spark."""
        return next(process for process in self.members() if process.name() == "java")

    def planner(self) -> psutil.Process:
        """The process that plans epochs."""
        return next(process for process in self.members() if _runs(process, PLANNER))

    def daemons(self) -> list[psutil.Process]:
        """Spark's Python daemons; their children are the workers."""
        found = [process for process in self.members() if _runs(process, "hayase.runtime.worker.daemon")]
        return [process for process in found if _parent(process) not in {each.pid for each in found}]

    def workers(self) -> list[psutil.Process]:
        """The Python workers, without the sources of spare processes."""
        children = [child for daemon in self.daemons() for child in _children(daemon)]
        return [child for child in children if not _has_own_group(child)]

    def end(self) -> None:
        """SIGKILL to whatever is left."""
        kill(self.members())
        self.process.wait()

    def said(self) -> str:
        """The end of its output."""
        return self.output.read_text(errors="replace")[-6000:]


@dataclass
class Scene:
    """An application under test and its surroundings."""

    name: str
    folder: Path
    log_config: LogConfig
    seed: int
    changes: dict[str, Any] = field(default_factory=dict)
    module: str = "tests.crash.app_under_test"
    through: bool = False
    starts: list[Started] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.random = random.Random(self.seed)
        self.prefix = f"{self.name}-"
        self.log = open_log(self.log_config)
        given.create_topics(self.log, self.prefix)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the application."""
        where = {"log.dir": self.log_config.location}
        if self.log_config.kind == "kafka":
            where = {"bootstrap.servers": self.log_config.location}
        return {
            "application.id": self.name,
            "state.dir": str(self.folder / "state"),
            "num.stream.threads": 2,
            "task.timeout.ms": int(300_000 * PATIENCE),
            "max.records.per.epoch": EPOCH_RECORDS_MAX,
            "statestore.cache.max.bytes": 0,
            **where,
            **self.changes,
        }

    @property
    def checkpoint(self) -> Path:
        """Where epoch records and deltas are."""
        return Path(StreamsConfig(self.settings).checkpoint_dir)

    @property
    def local_state(self) -> Path:
        """Where the bundles' environments are."""
        return self.folder / "state" / self.name / "state"

    def load(self, part: Sequence[given.Input] | None = None) -> None:
        """Write input, all of it unless told otherwise."""
        given.write(self.log, self.prefix, given.records() if part is None else list(part))

    def start(self, failpoints: Sequence[Failpoint] = (), *, bounded: bool = True) -> Started:
        """Start the application; it does not wait."""
        number = len(self.starts)
        spec, pids = self.folder / f"spec-{number}.json", self.folder / f"pids-{number}"
        tokens = {point: self.folder / f"token-{number}-{index}" for index, point in enumerate(failpoints)}
        armed = [
            {
                **{name: value for name in ("epoch", "bundle") if (value := getattr(point, name)) is not None},
                "name": point.name,
                "action": point.action,
                "seconds": PAUSE_S,
                "until": str(self.wake_file),
                "token": str(token),
                "pids": str(pids),
            }
            for point, token in tokens.items()
        ]
        variable = json.dumps(armed) if armed else ""
        settings = {**self.settings, **self._for_executors(variable)}
        described = {
            "settings": settings,
            "prefix": self.prefix,
            "pids": str(pids),
            "bounded": bounded,
            "through": self.through,
        }
        spec.write_text(json.dumps({**described, "stop": str(self.stop_file), "minutes": 4 * PATIENCE}))
        output = self.folder / f"output-{number}.txt"
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", self.module, str(spec)],
                cwd=ROOT,
                env={**os.environ, VARIABLE: variable, "TMPDIR": str(temporary)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.starts.append(Started(process, output, tokens))
        return self.starts[-1]

    @property
    def wake_file(self) -> Path:
        """Ends all pauses."""
        return self.folder / "wake"

    @property
    def stop_file(self) -> Path:
        """Tells a continuous run that the input is complete."""
        return self.folder / "stop"

    def run(self, failpoints: Sequence[Failpoint] = ()) -> None:
        """Run to the end of the input in one start; every failpoint must be reached."""
        started = self.start(failpoints)
        assert started.wait() == 0, started.said()
        missed = [str(point) for point in failpoints if not started.fired(point)]
        assert not missed, missed

    def run_until_killed(self, failpoint: Failpoint) -> Started:
        """Start with one failpoint that ends the application, and wait for that end."""
        started = self.start([failpoint])
        code = started.wait()
        assert started.fired(failpoint), f"{failpoint}: not reached; exit code {code}\n{started.said()}"
        assert code != 0, f"{failpoint}: the application came to its end\n{started.said()}"
        return started

    def done_epochs(self) -> int:
        """How many epochs are complete."""
        return len(list((self.checkpoint / "epochs").glob("*.done")))

    def output(self, topic: str) -> list[list[tuple[str, Any, int]]]:
        """Key, value and time of what a `read_committed` reader finds in an output topic, by partition in order.

        Waits for transactions that are just ending: a record appended last can be seen only after them.
        """
        name, partitions = self.prefix + topic, range(given.PARTITIONS)
        fence = _FENCE + os.urandom(8)
        writer = self.log.writer()
        writer.append(
            [OutputBatch(name, [fence], [fence], [0], partitions=_array(partition)) for partition in partitions]
        )
        writer.close()
        return [self._settled(name, partition, fence) for partition in partitions]

    def store(self, name: str) -> dict[str, tuple[Any, int | None]]:
        """Rows of a store by key, read by this process while no application runs."""
        app = StreamsApp(build(self.prefix, through=self.through), self.settings)
        # On a cluster the states are on its machines: what is in the checkpoint counts.
        last = app.history(name).newest_epoch if self._on_cluster else None
        rows = app.store(name, as_of_epoch=last).all()
        assert len(set(rows.epochs.values())) == 1, rows.epochs
        return {row.key: (row.value, row.timestamp_ms) for row in rows}

    def close(self) -> None:
        """End everything that was started."""
        for started in self.starts:
            started.end()
        for file in self.folder.rglob("data.mdb"):  # of stores that were read here
            close_environment(file.parent)
        self.log.close()

    @property
    def _on_cluster(self) -> bool:
        return "spark.master" in self.settings

    def _for_executors(self, failpoints: str) -> dict[str, str]:
        """Executors of a cluster do not inherit the environment."""
        return {f"spark.executorEnv.{VARIABLE}": failpoints} if self._on_cluster and failpoints else {}

    def _settled(self, name: str, partition: int, fence: bytes) -> list[tuple[str, Any, int]]:
        where = TopicPartition(name, partition)
        for _ in poll(lambda: fence in self._keys(where), 90, f"transactions that end in {where}"):
            pass
        reader = self.log.reader()
        found = []
        for batch in reader.fetch(where, self.log.start_offsets([where])[where], self.log.end_offsets([where])[where]):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps_ms.tolist(), strict=True):
                if key is not None and value is not None and not key.startswith(_FENCE):
                    found.append((key.decode(), json.loads(value), time_ms))
        reader.close()
        return found

    def _keys(self, where: TopicPartition) -> list[bytes | None]:
        end = self.log.end_offsets([where])[where]
        reader = self.log.reader()
        keys = [key for batch in reader.fetch(where, max(0, end - 3), end) for key in batch.keys]
        reader.close()
        return keys


def poll(condition: Callable[[], bool], timeout_s: float, what: str) -> Iterator[None]:
    """Yield, some milliseconds apart, until the condition holds."""
    deadline = time.monotonic() + timeout_s * PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s * PATIENCE} s for {what}"
        yield
        time.sleep(0.03)


def wait_for(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Return when the condition holds."""
    for _ in poll(condition, timeout_s, what):
        pass


def kill(processes: Sequence[psutil.Process]) -> None:
    """SIGKILL, whether they still live or not."""
    for process in processes:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _parent(process: psutil.Process) -> int | None:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return None


def _has_own_group(process: psutil.Process) -> bool:
    """Whether it has, as a source of spare processes does; workers are in that of their daemon."""
    try:
        return os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []


def _array(partition: int) -> Any:
    import numpy as np

    return np.array([partition], np.int32)
