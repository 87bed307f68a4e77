"""Connectors of a program: `from_connector` and `to_connector`, in threads of the application's process."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hayase.connect.config.references import ReferencePolicy
from hayase.connect.config.worker_config import WorkerConfig
from hayase.connect.connector_parts import connector_class
from hayase.connect.connector_validation import ConnectorValidator
from hayase.connect.contracts import SinkConnector, SourceConnector
from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.connector_runner import ConnectorRunner
from hayase.connect.herder.environment import WorkerEnvironment
from hayase.connect.herder.offset_changes import OffsetChanges
from hayase.connect.herder.stores import NotKept, StoredConnector
from hayase.connect.herder.task_loops import group_of
from hayase.connect.plugins import Plugins
from hayase.connect.program_converters import converter_settings
from hayase.connect.purge import Positions, PurgeThread, purge_written
from hayase.core.errors import ConfigError, HayaseError, LogError, TopologyError
from hayase.core.records import TopicPartition
from hayase.core.time import SystemClock
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig
from hayase.serde.protocol import Serde
from hayase.topology.nodes import ProgramConnector

_IDLE_S = 1.0
"""For how long a source has nothing before it is at its end."""
_STOP_S = 30.0
_FLUSH_MS = 60_000
_LOG = logging.getLogger(__name__)
_ROUTE = "hayaseTopic"
Serdes = Mapping[str, tuple[Serde, Serde]]


class ProgramConnectors:
    """The connectors of one application while it runs. Made, it has checked all of them and started none.

    Markers, offsets and ranges are kept under the group `<application.id>-connect`.

    Args:
        connectors: with the names that their topics have in the log.
        serdes: of keys and values of these topics.
        log_config: the log.
        application_id: of the application.
        purge_interval_ms: how often records that sinks have written are deleted from their topics.

    Raises:
        TopologyError: `INVALID_CONNECTOR`: a configuration is wrong; all its errors are named, and the line.
    """

    def __init__(
        self,
        connectors: Sequence[ProgramConnector],
        serdes: Serdes,
        log_config: LogConfig,
        application_id: str,
        purge_interval_ms: int,
    ) -> None:
        self._given = {each.name: each for each in connectors}
        self._log_config = log_config
        self._application_id = application_id
        self._purge_interval_ms = purge_interval_ms
        self._purge: PurgeThread | None = None
        self._plugins = Plugins()
        self._references = ReferencePolicy(
            (Path("/"),), (Path("/"),), re.compile(".*")
        )  # the program reads them itself
        self._props = {each.name: self._checked(each, serdes[each.topic]) for each in connectors}
        self._env: WorkerEnvironment | None = None
        self._log: Log | None = None
        self._runners: dict[str, ConnectorRunner] = {}
        self._ends: dict[str, dict[TopicPartition, int]] | None = None
        self._closed = False

    # checks

    def _checked(self, connector: ProgramConnector, serdes: tuple[Serde, Serde]) -> dict[str, str]:
        try:
            cls = connector_class(self._plugins, connector.config)
            props = self._props_of(connector, cls, serdes)
            durable = self._log_config.kind != "embedded" or self._log_config.options.get("fsync", "true") == "true"
            errors = ConnectorValidator(self._plugins, self._references, durable=durable).validate(props).errors()
        except HayaseError as error:
            raise _invalid(connector, [error.message]) from error
        except ImportError as error:
            raise _invalid(connector, [f"a package is not installed: {error}"]) from error
        if errors:
            raise _invalid(connector, errors)
        return props

    def _props_of(
        self,
        connector: ProgramConnector,
        cls: type[SourceConnector] | type[SinkConnector],
        serdes: tuple[Serde, Serde],
    ) -> dict[str, str]:
        if issubclass(cls, SinkConnector) is connector.source:
            method, kind = ("from_connector", "source") if connector.source else ("to_connector", "sink")
            raise ConfigError("WRONG_KIND", f"{connector.config['connector.class']} is no {kind}, which {method} needs")
        props = {**connector.config, "name": connector.name}
        for part, serde in zip(("key", "value"), serdes, strict=True):
            if f"{part}.converter" not in props:
                props |= converter_settings(part, serde, source=connector.source)
        keys = cls.config().keys
        if connector.source:
            if "topic" in keys:
                props.setdefault("topic", connector.topic)
            props["transforms"] = ",".join(filter(str.strip, (props.get("transforms", ""), _ROUTE)))
            props[f"transforms.{_ROUTE}.type"] = "org.apache.kafka.connect.transforms.RegexRouter"
            props[f"transforms.{_ROUTE}.regex"] = ".*"
            props[f"transforms.{_ROUTE}.replacement"] = connector.topic
        else:
            props["topics"] = connector.topic
            if "collection.name.format" in keys:
                props.setdefault("collection.name.format", connector.name)
        return props

    # life

    def _environment(self) -> WorkerEnvironment:
        if self._env is None:
            group = f"{self._application_id}-connect"
            settings = {
                "group.id": group,
                "offset.storage.topic": f"{group}-offsets",
                "offset.storage.partitions": "1",
                "topic.creation.enable": "false",
                "offset.flush.interval.ms": str(min(_FLUSH_MS, self._purge_interval_ms)),
            }
            self._log = open_log(self._log_config)
            self._log.prepare_markers(group)
            self._env = WorkerEnvironment(
                WorkerConfig(settings), self._plugins, self._references, self._log_config, self._log,
                self._application_id, SystemClock(),
            )  # fmt: skip
        return self._env

    def forget_offsets(self) -> None:
        """Let sources start from their beginnings: the application has never started on its checkpoint."""
        changes = OffsetChanges(self._environment())
        for name in self._names(source=True):
            changes.change(name, connector_class(self._plugins, self._props[name]), self._props[name], None)

    def _names(self, *, source: bool) -> list[str]:
        return [name for name, each in self._given.items() if each.source is source]

    def start(self, *, sources: bool) -> None:
        """Start the sources, or the sinks, that do not run."""
        for name in self._names(source=sources):
            if name not in self._runners:
                kept = NotKept()
                stored = StoredConnector(dict(self._props[name]))
                runner = ConnectorRunner(name, stored, self._environment(), kept, kept)
                self._runners[name] = runner
                runner.start()
        if not sources and self._purge is None and self._names(source=False):
            env = self._environment()
            self._purge = PurgeThread(
                lambda: env.open_task_log({}), env.close_task_log, self._positions, self._purge_interval_ms
            )

    def _positions(self) -> Positions:
        """Where the sinks are that run, by their groups."""
        return {
            group_of(name, self._props[name]): runner.positions()
            for name, runner in dict(self._runners).items()
            if not self._given[name].source
        }

    def restart_failed(self) -> None:
        """Restart what has failed."""
        for runner in list(self._runners.values()):
            failure = runner.failure()
            if failure is not None:
                runner.restart(connector=failure.task is None, tasks=set() if failure.task is None else {failure.task})

    def error(self) -> HayaseError | None:
        """Why a connector has failed, if one has."""
        for name, runner in list(self._runners.items()):
            failure = runner.failure()
            if failure is not None:
                return _failed(self._given[name], failure.task, failure.error, failure.trace)
        return None

    def sources_at_end(self) -> bool:
        """Whether no source has had anything for a while."""
        runners = dict(self._runners)
        return all(runners[name].idle_s() >= _IDLE_S for name in self._names(source=True) if name in runners)

    def sinks_at_end(self) -> bool:
        """Whether all sinks have written what was in their topics when this was asked for the first time."""
        log = self._environment().log
        if self._ends is None:
            self._ends = {name: _ends(log, self._given[name].topic) for name in self._names(source=False)}
        for name, ends in self._ends.items():
            runner = self._runners.get(name)
            if runner is None:
                return False
            runner.hurry()
            positions = {TopicPartition(each.topic, each.partition): at for each, at in runner.positions().items()}
            if any(positions.get(partition, -1) < end for partition, end in ends.items()):
                return False
        return True

    def stop(self, *, sources: bool) -> HayaseError | None:
        """Stop the sources, or the sinks; why one could not finish what it had begun, if so."""
        names = [name for name in self._names(source=sources) if name in self._runners]
        positions = {} if sources else self._positions()
        if not sources and self._purge is not None:
            self._purge.close()
            self._purge = None
        for name in names:
            self._runners[name].close()
        deadline = time.monotonic() + _STOP_S
        error: HayaseError | None = None
        for name in names:
            runner = self._runners.pop(name)
            runner.join(max(0.0, deadline - time.monotonic()))
            if runner.stop_error is not None:
                error = error or _failed(self._given[name], None, runner.stop_error, "")
        if positions:
            self._purge_once(positions)
        return error

    def _purge_once(self, positions: Positions) -> None:
        try:
            purge_written(self._environment().log, positions)
        except LogError as error:
            _LOG.warning("topics of connectors were not purged: %s", error)

    def close(self) -> None:
        """Stop all, and let go of the log; calling again does nothing."""
        if self._closed:
            return
        self._closed = True
        self.stop(sources=True)
        self.stop(sources=False)
        if self._log is not None:
            self._log.close()


def describe_connectors(connectors: Sequence[ProgramConnector]) -> list[str]:
    """One line for each connector, with its class, the topic that joins it to the topology, and its guarantee."""
    plugins = Plugins()
    return [_described(plugins, each) for each in connectors]


def _described(plugins: Plugins, connector: ProgramConnector) -> str:
    name = connector.config["connector.class"]
    try:
        cls = connector_class(plugins, connector.config)
    except (HayaseError, ImportError):
        guarantee = "unknown class"
    else:
        if issubclass(cls, SinkConnector):
            guarantee = cls.delivery.value.lower().replace("_", " ")
        else:
            support = cls().exactly_once_support(dict(connector.config))
            guarantee = "exactly once unknown" if support is None else f"exactly once {support.value.lower()}"
    if connector.source:
        return f"  from_connector {connector.name} ({name}, {guarantee}) --> topic {connector.topic}"
    return f"  topic {connector.topic} --> to_connector {connector.name} ({name}, {guarantee})"


def _ends(log: Log, topic: str) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, number) for number in range(log.describe([topic])[topic].partitions)]
    return dict(log.end_offsets(partitions))


def _invalid(connector: ProgramConnector, errors: Sequence[str]) -> TopologyError:
    return TopologyError(
        "INVALID_CONNECTOR",
        f"the configuration of the connector {connector.name!r} is wrong: {'; '.join(errors)}",
        line=connector.line,
        connector=connector.name,
    )


def _failed(connector: ProgramConnector, task: int | None, error: Exception | None, trace: str) -> HayaseError:
    reason = str(error) if error is not None else trace.strip().rpartition("\n")[2]
    failure = ConnectError(
        "CONNECTOR_FAILED",
        f"the connector {connector.name!r} failed: {reason}",
        connector=connector.name,
        task=task,
        line=connector.line,
    )
    failure.__cause__ = error
    return failure
