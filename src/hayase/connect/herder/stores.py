"""Topics in which a worker keeps configurations and states, in Kafka Connect's formats."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from hayase.connect.exceptions import ConnectError
from hayase.connect.herder.states import Status, TargetState
from hayase.connect.offsets import ensure_topic, read_whole_topic
from hayase.core.decoding import decode_json
from hayase.core.time import Clock
from hayase.log.protocol import Log, OutputBatch

_COMPACTED = {"cleanup.policy": "compact"}
_CONNECTOR, _TASK, _COMMIT, _TARGET = "connector-", "task-", "commit-", "target-state-"
_FENCING = "tasks-fencing-"
_GROUP = "worker-group"
"""Key of a record of ours, which Kafka Connect does not have."""


class KeyedTopic:
    """A compacted topic of JSON objects by key. Thread-safe.

    Args:
        log: where it is.
        name: of the topic.
        partitions: how many it gets when it is made.
        clock: the time of its records.
    """

    def __init__(self, log: Log, name: str, partitions: int, clock: Clock) -> None:
        self.name = name
        self._log = log
        self._partitions = partitions
        self._clock = clock
        self._lock = threading.Lock()
        self._writer = log.writer()

    def ensure(self) -> None:
        """Make the topic if it does not exist."""
        ensure_topic(self._log, self.name, self._partitions, _COMPACTED)

    def read(self) -> dict[str, bytes]:
        """The last value of each key."""
        values: dict[str, bytes] = {}
        for key, value, _ in read_whole_topic(self._log, self.name):
            text = (key or b"").decode(errors="replace")
            values.pop(text, None)
            if value is not None:
                values[text] = value
        return values

    def put(self, values: Mapping[str, object]) -> None:
        """Write values, durable when it returns; `None` removes a key."""
        batch = OutputBatch(
            self.name,
            [key.encode() for key in values],
            [None if value is None else msgspec.json.encode(value) for value in values.values()],
            [self._clock.now_ms()] * len(values),
        )
        with self._lock:
            self._writer.append([batch])

    def close(self) -> None:
        """Let go of connections."""
        self._writer.close()


@dataclass(slots=True)
class StoredConnector:
    """A connector as the topic of configurations has it.

    Attributes:
        props: its configuration, references unresolved.
        target: what its user asks for.
        tasks: configurations of its tasks.
    """

    props: dict[str, str]
    target: TargetState = TargetState.STARTED
    tasks: list[dict[str, str]] = field(default_factory=list)


class _Properties(msgspec.Struct):
    properties: dict[str, str]


class _TargetValue(msgspec.Struct):
    state: str
    v2: str | None = msgspec.field(default=None, name="state.v2")


class _Group(msgspec.Struct):
    group: str = msgspec.field(name="group.id")


class _Commit(msgspec.Struct):
    tasks: int


class KeepsTasks(Protocol):
    """Keeps configurations of tasks."""

    def put_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Keep those of a connector."""


class KeepsStatuses(Protocol):
    """Keeps states of connectors and tasks, and which topics they use."""

    def put(self, connector: str, task: int | None, status: Status | None) -> None:
        """Keep a state; `None`: forget it."""

    def add_topic(self, connector: str, task: int, topic: str) -> None:
        """Keep that a connector uses a topic."""

    def remove_topics(self, connector: str, topics: Sequence[str]) -> None:
        """Forget topics."""


class NotKept:
    """Keeps nothing: a program makes its connectors again at each start."""

    def put_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """See `KeepsTasks`."""

    def put(self, connector: str, task: int | None, status: Status | None) -> None:
        """See `KeepsStatuses`."""

    def add_topic(self, connector: str, task: int, topic: str) -> None:
        """See `KeepsStatuses`."""

    def remove_topics(self, connector: str, topics: Sequence[str]) -> None:
        """See `KeepsStatuses`."""


class ConfigStore:
    """Configurations of connectors and tasks, and target states.

    Args:
        topic: where they are; it has one partition, so that their order is one.
        group: the worker's `group.id`.
    """

    def __init__(self, topic: KeyedTopic, group: str) -> None:
        self._topic = topic
        self._group = group

    def load(self) -> dict[str, StoredConnector]:
        """All connectors; the topic is the group's from the first call on.

        Raises:
            ConnectError: `CONFIGS_OF_ANOTHER_GROUP`; `CONFIGS_DAMAGED`: a record of the topic is none of Kafka
                Connect's.
        """
        self._topic.ensure()
        values = self._topic.read()
        try:
            self._claim(values.get(_GROUP))
            return self._connectors(values)
        except msgspec.MsgspecError as error:
            raise ConnectError(
                "CONFIGS_DAMAGED",
                f"a record of the topic of configurations cannot be read ({error}): something else writes to it; give "
                "the worker another config.storage.topic",
                topic=self._topic.name,
            ) from error

    def _claim(self, stored: bytes | None) -> None:
        """Two groups with the same connectors would write each record twice: no lease or fence is of both."""
        if stored is None:
            self._topic.put({_GROUP: _Group(self._group)})
            return
        owner = decode_json(stored, as_type=_Group).group
        if owner != self._group:
            raise ConnectError(
                "CONFIGS_OF_ANOTHER_GROUP",
                f"the connectors in {self._topic.name} are those of group.id={owner}, and this worker has "
                f"group.id={self._group}: start it as {owner}, or give it topics of its own by config.storage.topic, "
                "offset.storage.topic and status.storage.topic",
                topic=self._topic.name,
            )

    def _connectors(self, values: Mapping[str, bytes]) -> dict[str, StoredConnector]:
        connectors = {
            key.removeprefix(_CONNECTOR): StoredConnector(decode_json(value, as_type=_Properties).properties)
            for key, value in values.items()
            if key.startswith(_CONNECTOR)
        }
        for name, connector in connectors.items():
            target = values.get(_TARGET + name)
            if target is not None:
                decoded = decode_json(target, as_type=_TargetValue)
                connector.target = TargetState(decoded.v2 or decoded.state)
            commit = values.get(_COMMIT + name)
            count = 0 if commit is None else decode_json(commit, as_type=_Commit).tasks
            tasks = [values.get(f"{_TASK}{name}-{number}") for number in range(count)]
            connector.tasks = [decode_json(task, as_type=_Properties).properties for task in tasks if task is not None]
        return connectors

    def put_connector(self, name: str, props: Mapping[str, str], target: TargetState | None = None) -> None:
        """Keep a configuration, with a target state if one is given."""
        values: dict[str, object] = {}
        if target is not None:
            values[_TARGET + name] = _target_value(target)
        self._topic.put({**values, _CONNECTOR + name: {"properties": dict(props)}})

    def put_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Keep the configurations of all tasks; they count when their number is written."""
        values: dict[str, object] = {
            f"{_TASK}{name}-{number}": {"properties": dict(task)} for number, task in enumerate(tasks)
        }
        self._topic.put({**values, _COMMIT + name: {"tasks": len(tasks)}, _FENCING + name: {"task-count": len(tasks)}})

    def put_target(self, name: str, target: TargetState) -> None:
        """Keep what the user asks for."""
        self._topic.put({_TARGET + name: _target_value(target)})

    def remove(self, name: str) -> None:
        """Forget a connector."""
        self._topic.put({_CONNECTOR + name: None, _TARGET + name: None})

    def close(self) -> None:
        """Let go of connections."""
        self._topic.close()


def _target_value(target: TargetState) -> dict[str, str]:
    older = TargetState.PAUSED if target is TargetState.STOPPED else target  # what workers before 3.5 read
    return {"state": str(older), "state.v2": str(target)}


class StatusStore:
    """States of connectors and tasks, and the topics that connectors use.

    Args:
        topic: where they are.
        clock: when a topic was first used.
    """

    def __init__(self, topic: KeyedTopic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock

    def load_topics(self) -> dict[str, list[str]]:
        """The topics of each connector, sorted."""
        self._topic.ensure()
        found: dict[str, list[str]] = {}
        for key in self._topic.read():
            if key.startswith("status-topic-"):
                topic, _, connector = key.removeprefix("status-topic-").partition(":connector-")
                found.setdefault(connector, []).append(topic)
        return {connector: sorted(topics) for connector, topics in found.items()}

    def put(self, connector: str, task: int | None, status: Status | None) -> None:
        """Keep the state of a connector, or of one of its tasks; `None` forgets it."""
        key = f"status-connector-{connector}" if task is None else f"status-task-{connector}-{task}"
        value = None if status is None else {
            "state": str(status.state),
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }  # fmt: skip
        self._topic.put({key: value})

    def add_topic(self, connector: str, task: int, topic: str) -> None:
        """Keep that a connector uses a topic."""
        value = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": self._clock.now_ms()}
        self._topic.put({f"status-topic-{topic}:connector-{connector}": {"topic": value}})

    def remove_topics(self, connector: str, topics: Sequence[str]) -> None:
        """Forget topics of a connector."""
        if topics:
            self._topic.put({f"status-topic-{topic}:connector-{connector}": None for topic in topics})

    def close(self) -> None:
        """Let go of connections."""
        self._topic.close()
