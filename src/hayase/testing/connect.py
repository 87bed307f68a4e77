"""`ConnectorTestDriver`: tasks of a connector, driven step by step in this thread, without a worker or Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.connector_parts import connector_class
from hayase.connect.connector_validation import ConnectorValidator, typed_config
from hayase.connect.contracts import Connector, SinkConnector, SinkPartition, SourceConnector
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.generation_plan import plan_generation, task_configs
from hayase.connect.herder.offset_changes import OffsetChanges
from hayase.connect.herder.task_loops import StartedTask, TaskSpec, start_task
from hayase.connect.herder.topics_of_sink import sink_partitions
from hayase.connect.offsets import ensure_topic
from hayase.connect.plugins import Plugins
from hayase.connect.source_loop import SourceTaskLoop
from hayase.core.errors import ConfigError
from hayase.core.records import Headers, TopicPartition
from hayase.core.time import Clock, SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch

_IDLE_STEPS = 3


class TopicRecord(NamedTuple):
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers
    partition: int
    offset: int


class ConnectorTestDriver:
    r"""Runs one connector on an embedded log.

    What it does is what the worker does: the same loops, transforms, converters, markers and offsets. A pause that the
    worker would make after a failure is not made.

    Args:
        props: configuration of the connector, with `connector.class`: a name, or a class.
        worker: settings of the worker, as `value.converter`.
        log: the log; `None`: one in a folder that goes with the driver.
        clock: wall clock.

    Raises:
        ConfigError: the configuration is wrong; all errors are named.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "lines.txt").write_text("one\ntwo\n")
        >>> props = {"connector.class": "FileStreamSource", "file": str(folder / "lines.txt"), "topic": "lines"}
        >>> strings = {"value.converter": "StringConverter"}
        >>> with ConnectorTestDriver(props | strings) as driver:
        ...     driver.run_to_end()
        ...     [record.value for record in driver.records("lines")]
        [b'one', b'two']
    """

    def __init__(
        self,
        props: Mapping[str, str | type[Connector]],
        *,
        worker: Mapping[str, str] | None = None,
        log: Log | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="hayase-connector-")
        config = LogConfig("embedded", self._folder)
        self._own_log = log is None
        self.log = open_log(config) if log is None else log
        self._connector: Connector | None = None
        self._tasks: dict[int, StartedTask] = {}
        self.specs: dict[int, TaskSpec] = {}
        """What the tasks were started with."""
        try:
            worker_config = WorkerConfig(worker or {})
            plugins = Plugins(worker_config.plugin_folders)
            given = props["connector.class"]
            name = given if isinstance(given, str) else plugins.add_class(given)
            self.props = {"name": "test", **{key: str(value) for key, value in props.items()}, "connector.class": name}
            self.environment = WorkerEnvironment(
                worker_config, plugins, ReferencePolicy(), config, self.log, "test", clock or SystemClock()
            )
            overrides = self.environment.overrides
            infos = ConnectorValidator(plugins, ReferencePolicy(), overrides=overrides).validate(self.props)
            if infos.error_count:
                raise ConfigError("INVALID_CONFIGURATION", "\n".join(infos.errors()))
            self._class = connector_class(plugins, self.props)
        except BaseException:
            self.close()
            raise

    # topics

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Make a topic, for a sink that reads it."""
        ensure_topic(self.log, topic, partitions, {})

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, *, timestamp_ms: int = 0, headers: Headers = ()
    ) -> None:
        """Write a record to a topic, which is made if it does not exist."""
        self.create_topic(topic)
        writer = self.log.writer()
        writer.append([OutputBatch(topic, [key], [value], [timestamp_ms], headers=[headers] if headers else None)])
        writer.close()

    def records(self, topic: str) -> list[TopicRecord]:
        """All records of a topic, by partition and offset."""
        info = self.log.describe([topic]).get(topic)
        partitions = [TopicPartition(topic, number) for number in range(0 if info is None else info.partitions)]
        starts, ends = self.log.start_offsets(partitions), self.log.end_offsets(partitions)
        reader = self.log.reader()
        found = [
            TopicRecord(
                batch.keys[row],
                batch.values[row],
                int(batch.timestamps_ms[row]),
                batch.headers[row] if batch.headers is not None else (),
                partition.partition,
                int(batch.offsets[row]),
            )
            for partition in partitions
            for batch in reader.fetch(partition, starts[partition], ends[partition])
            for row in range(len(batch))
        ]
        reader.close()
        return found

    # the connector

    def start(self) -> None:
        """Start the connector and its tasks, in a generation of their own."""
        connector = self._class()
        connector.initialize(_Context())
        connector.start(self.props)
        self._connector = connector
        partitions = self._partitions()
        configs = task_configs(self.props["name"], connector, self.props)
        self.specs = self._plan(connector, configs, partitions)
        self._tasks = {task: start_task(self.environment, spec, _do_not_wait) for task, spec in self.specs.items()}

    def _partitions(self) -> list[SinkPartition]:
        if not issubclass(self._class, SinkConnector):
            return []
        config = typed_config(self._class, self.props)
        for topic in config.list("topics"):
            self.create_topic(topic)
        return sink_partitions(self.environment, config)

    def _plan(
        self, connector: Connector, configs: Sequence[Mapping[str, str]], partitions: Sequence[SinkPartition]
    ) -> dict[int, TaskSpec]:
        name = self.props["name"]
        return plan_generation(self.environment, name, connector, self.props, configs, partitions, lambda _, __: None)[
            1
        ]

    def step(self) -> bool:
        """Let each task poll and publish, or read and write, once; whether there was anything."""
        if self._connector is None:
            self.start()
        steps = [started.loop.step() for started in self._tasks.values()]
        for started in self._tasks.values():
            if isinstance(started.loop, SourceTaskLoop):
                started.loop.land()
        return any(steps)

    def run_to_end(self) -> None:
        """Step until there is nothing to do."""
        idle = 0
        while idle < _IDLE_STEPS:
            idle = 0 if self.step() else idle + 1

    def offsets(self) -> list[dict[str, object]]:
        """The offsets that are stored, as `GET /connectors/…/offsets` shows them; those of sinks after `stop`."""
        return OffsetChanges(self.environment).of(self.props["name"], self._class, self.props)

    def metrics(self, task: int = 0) -> dict[str, float]:
        """Metrics of a task, by name."""
        return self._tasks[task].metrics()

    def stop(self) -> None:
        """Stop the tasks as the worker does; `start` or `step` goes on from the offsets."""
        for started in self._tasks.values():
            started.loop.drain()
        self.kill()

    def kill(self) -> None:
        """End the tasks at once, as a crash does: what was not published is polled again."""
        for started in self._tasks.values():
            started.close()
        self._tasks = {}
        if self._connector is not None:
            self._connector.stop()
        self._connector = None

    def close(self) -> None:
        """Stop, and remove the log if it is the driver's own."""
        self.kill()
        if self._own_log:
            self.log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> ConnectorTestDriver:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_source(self) -> bool:
        """Whether the connector is a source."""
        return issubclass(self._class, SourceConnector)


class _Context:
    """A `ConnectorContext` of a driver that asks for the tasks at each start only."""

    def request_task_reconfiguration(self) -> None:
        """The next `start` asks for the tasks."""

    def raise_error(self, error: Exception) -> None:
        """Fail the test."""
        raise error


def _do_not_wait(seconds: float) -> None:
    del seconds
