"""A herder whose tasks run in slots, and the processes of these."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.herder import Herder
from hayase.connect.plugins import Plugins
from hayase.connect.slots import pool
from hayase.core.records import TopicPartition
from hayase.core.time import SystemClock
from hayase.log.protocol import Log, LogConfig
from hayase.runtime.wire.endpoints import RunEndpoints
from hayase.runtime.wire.span_protocol import SpanListener

_SLOT = """
import sys
from hayase.connect.slots.slot import run_slot
from hayase.runtime.wire.span_protocol import connect
run_slot(connect(sys.argv[1]), int(sys.argv[2]))
"""


class SlotWorker:
    """A herder whose tasks run in slots, and the processes of these."""

    def __init__(
        self, log: Log, config_of_log: LogConfig, folder: Path, slots: int, props: Mapping[str, str] | None = None
    ) -> None:
        self.log, self.folder = log, folder
        listener = SpanListener(RunEndpoints("", str(folder)), slots)
        self.address = listener.address
        self.pool = pool.ConnectorSlotPool(listener, slots)
        config = WorkerConfig({"group.id": "w", "value.converter": "StringConverter", **(props or {})})
        plugins = Plugins(entry_points=False)
        env = WorkerEnvironment(config, plugins, ReferencePolicy(), config_of_log, log, "a", SystemClock())
        self.herder = Herder(env, self.pool)
        self.herder.start()
        self.processes: list[subprocess.Popen[bytes]] = []

    def slot(self, number: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", _SLOT, self.address, str(number)])
        self.processes.append(process)
        return process

    def lines(self, name: str) -> Path:
        file = self.folder / f"{name}.txt"
        file.touch()
        props = {"name": name, "connector.class": "FileStreamSource", "file": str(file), "topic": name}
        self.herder.create({**props, "batch.size": "3"})
        return file

    def states(self, name: str) -> list[str]:
        return [str(status.state) for _, status in sorted(self.herder.runner(name).task_statuses.items())]

    def published(self, topic: str) -> list[str]:
        where = TopicPartition(topic, 0)
        if topic not in self.log.describe([topic]):
            return []
        batches = self.log.reader().fetch(where, 0, self.log.end_offsets([where])[where])
        return [(value or b"").decode() for batch in batches for value in batch.values]

    def generations(self) -> dict[str, int]:
        """The generation of the first task of each connector: one that was started again has a later one."""
        names = self.herder.connectors()
        return {name: self.herder.runner(name)._specs[0].generation for name in names}

    def process_of(self, task: str) -> int:
        (slot,) = [number for number, tasks in self.pool.tasks().items() if task in tasks]
        return self.pool.processes()[slot]

    def close(self) -> None:
        self.herder.close()
        self.pool.close()
        for process in self.processes:
            process.wait(20)


def wait(found: Callable[[], object], wanted: object) -> None:
    deadline = time.monotonic() + 150
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, last
        time.sleep(0.05)
