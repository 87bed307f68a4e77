"""Questions and orders to the cluster, over one connection that is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
    TopicMetadata,
)

from hayase.core.errors import ConfigError, LogError
from hayase.core.records import TopicPartition
from hayase.log.kafka.clients import (
    explained_error,
    kafka_error,
    log_error,
    open_admin,
)
from hayase.log.kafka.forks import ProcessBound
from hayase.log.kafka.group_member import GroupMember
from hayase.log.protocol import LogConfig, TopicInfo

Answer = TypeVar("Answer")

EARLIEST: OffsetSpec = OffsetSpec.earliest()
LATEST: OffsetSpec = OffsetSpec.latest()

_COMMIT_S = 15.0
"""The planner commits after each epoch, only for other tools to look at, and has to go on when the brokers are away."""
_CONFIG_KEPT_S = 60.0
_VISIBLE_S = 60.0
_OPEN_S = 5.0
_OPEN_POLL_S = 0.03
_OFFSETS_TOPIC = "__consumer_offsets"
_GONE = {KafkaError.GROUP_ID_NOT_FOUND}
_LEADER_MOVES = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


class KafkaAdmin(ProcessBound):
    """The cluster's topics, offsets and groups. Thread-safe.

    A client that is freed never completes what it was asked: each request holds on to the client that has it, since
    another thread may put a new one in its place.

    Args:
        config: the log.
        timeout_s: how long a request may take, with its repetitions.
        monotonic: the clock for timeouts and for how long topic settings are kept, in seconds.
        sleep: waits that many seconds between two looks at a topic that is being made or removed.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        timeout_s: float = 60.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._config = config
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        self._members: dict[str, GroupMember] = {}
        self._topic_configs: dict[str, tuple[float, Mapping[str, str]]] = {}  # by topic id: asked when, answer

    def forget_clients(self) -> None:
        """See `ProcessBound.forget_clients`."""
        self._lock = threading.Lock()  # a thread of the parent process may have held the one before
        self._client = None
        self._members = {}

    def close(self) -> None:
        """Let go of the connections; a later call makes new ones."""
        self._client = None
        for member in self._members.values():
            member.consumer.close()
        self._members = {}

    @property
    def client(self) -> AdminClient:
        """The kept client."""
        with self._lock:
            if self._client is None:
                self._client = open_admin(self._config)
            return self._client

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str], replicas: int | None = None
    ) -> TopicInfo:
        """As `Log.create_topic`; returns when every partition has a leader."""
        topic = NewTopic(name, partitions, -1 if replicas is None else replicas, config=dict(config))
        deadline = self._monotonic() + self._timeout_s
        while (error := self._refused(topic)) is not None:
            reason = kafka_error(error)
            if _no_broker_yet(reason) and self._monotonic() < deadline:
                self._sleep(0.1)
                continue
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise LogError("TOPIC_EXISTS", f"there is a topic {name!r} already", topic=name) from error
            if reason.code() == KafkaError.INVALID_CONFIG:
                raise _invalid_setting(reason, name) from error
            raise self._error(reason, "creating a topic", topic=name) from error
        return self._made(name)

    def _refused(self, topic: NewTopic) -> KafkaException | None:
        """Ask for a topic; why it was not made, or None."""
        client = self.client
        for future in client.create_topics([topic], request_timeout=self._timeout_s).values():
            try:
                future.result()
            except KafkaException as error:
                return error
        return None

    def ensure_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> TopicInfo:
        """The topic; made, as by `create_topic`, if it does not exist, whichever process does so first.

        Raises:
            UnknownTopicError: it was deleted at once. LogError: as `create_topic`.
        """
        if (existing := self.describe([name]).get(name)) is not None:
            return existing
        try:
            return self.create_topic(name, partitions, config)
        except LogError as error:
            if error.condition != "TOPIC_EXISTS":
                raise
        return self._made(name)  # another process was faster, perhaps by less than the broker needs to hear of it

    def _made(self, name: str) -> TopicInfo:
        self._wait(name, there=True)
        info = self.describe([name]).get(name)
        if info is None:
            raise log_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "creating a topic", topic=name)
        self._wait_until_open(own_partitions(name, info.partitions))
        return info

    def _wait_until_open(self, partitions: Iterable[TopicPartition]) -> None:
        """The leader is named before it has opened its files, one partition after the other.

        All looks are those of one client: a new one that meets some partitions that are not open waits for 3 s. It is
        `offsets` that may need another, so that has the last word if this takes longer than 5 s; raises as that.
        """
        missing = dict.fromkeys(partitions, LATEST)
        deadline = self._monotonic() + _OPEN_S
        while missing and self._monotonic() < deadline:
            found = self._ask_offsets(missing, committed=True, last_chance=False)
            missing = {partition: spec for partition, spec in missing.items() if partition not in found}
            if missing:
                self._sleep(_OPEN_POLL_S)
        self.offsets(missing)

    def delete_topic(self, name: str) -> None:
        """As `Log.delete_topic`; returns when the topic can no longer be seen."""
        client = self.client
        self._result(client.delete_topics([name], request_timeout=self._timeout_s)[name], "deleting a topic", name)
        self._wait(name, there=False)

    def topic_config(self, name: str) -> dict[str, str]:
        """As `Log.topic_config`."""
        return {key: str(entry.value) for key, entry in self._settings([name])[name].items() if entry.value is not None}

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> TopicInfo:
        """As `Log.alter_topic_config`; returns when the change can be seen."""
        entries = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        if entries:
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
            client = self.client
            future = client.incremental_alter_configs([resource], request_timeout=self._timeout_s)[resource]
            try:
                future.result()
            except KafkaException as error:
                reason = kafka_error(error)
                if reason.code() in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST):
                    raise _invalid_setting(reason, name) from error
                raise self._error(reason, "changing a topic's settings", topic=name) from error
            self._wait_for_settings(name, changes)
        self._topic_configs = {}
        infos = self.describe([name])
        if name not in infos:
            raise log_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "changing a topic's settings", topic=name)
        return infos[name]

    def _wait_for_settings(self, name: str, changes: Mapping[str, str | None]) -> None:
        """As `_wait`: the controller has changed them, the broker that is asked may not know yet."""
        deadline = self._monotonic() + _VISIBLE_S
        while self._monotonic() < deadline:
            own = _own(self._settings([name])[name])
            if all(own.get(key) == value for key, value in changes.items()):
                return
            self._sleep(0.005)

    def _settings(self, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        client = self.client
        futures = client.describe_configs(resources, request_timeout=self._timeout_s)
        return {
            resource.name: self._result(future, "reading a topic's settings", resource.name)
            for resource, future in futures.items()
        }

    def _wait(self, name: str, *, there: bool) -> None:
        """A change is made by the controller; the broker that is asked hears of it a little later."""
        deadline = self._monotonic() + _VISIBLE_S
        while self._monotonic() < deadline:
            description = self._descriptions([name]).get(name)
            if there and description is not None and all(part.leader is not None for part in description.partitions):
                return
            if not there and description is None:
                return
            self._sleep(0.005)

    def topics(self) -> list[str]:
        """All topics but Kafka's internal ones, sorted."""
        return sorted(name for name in self._names() if not name.startswith("__"))

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """As `Log.describe`. Ids and partition counts are asked for in every call, settings once a minute."""
        descriptions = self._descriptions(names)
        configs = self._configs({name: str(description.topic_id) for name, description in descriptions.items()})
        return {
            name: TopicInfo(name, str(description.topic_id), len(description.partitions), configs[name])
            for name, description in descriptions.items()
        }

    def _descriptions(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        if not names:
            return {}
        client = self.client
        futures = client.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout_s)
        descriptions = {}
        for name, future in futures.items():
            try:
                descriptions[name] = future.result()
            except KafkaException as error:
                reason = kafka_error(error)
                if reason.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._error(reason, "describing a topic", topic=name) from error
        return descriptions

    def _configs(self, topic_ids: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """Settings made on the topics themselves. A topic recreated has a new id, so it is asked for."""
        now = self._monotonic()
        kept = {key: entry for key, entry in self._topic_configs.items() if now - entry[0] < _CONFIG_KEPT_S}
        missing = [name for name, topic_id in topic_ids.items() if topic_id not in kept]
        if missing:
            for name, settings in self._settings(missing).items():
                kept[topic_ids[name]] = (now, _own(settings))
        self._topic_configs = kept
        return {name: kept[topic_id][1] for name, topic_id in topic_ids.items()}

    def offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], *, committed: bool = True
    ) -> dict[TopicPartition, int]:
        """Offsets by specification; -1 for a time that no record has reached.

        A partition whose leader is just changing is asked for again.

        Raises:
            UnknownTopicError: a topic or partition does not exist.
            LogError: no answer.
        """
        offsets: dict[TopicPartition, int] = {}
        deadline = self._monotonic() + self._timeout_s
        while True:
            missing = {partition: spec for partition, spec in wanted.items() if partition not in offsets}
            if not missing:
                return offsets
            last_chance = self._monotonic() >= deadline
            offsets |= self._ask_offsets(missing, committed=committed, last_chance=last_chance)
            if len(offsets) < len(wanted):
                # A client that knows an older term of the leader goes on asking in it (after a broker restarted).
                self._client = None
                self._sleep(0.01)

    def _ask_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec], *, committed: bool, last_chance: bool
    ) -> dict[TopicPartition, int]:
        """Offsets of those partitions that have a leader; on the last chance the others are an error."""
        client = self.client
        futures = client.list_offsets(
            {confluent_kafka.TopicPartition(*partition): spec for partition, spec in wanted.items()},
            isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout_s,
        )
        offsets = {}
        for key, future in futures.items():
            try:
                offsets[TopicPartition(key.topic, key.partition)] = future.result().offset
            except KafkaException as error:
                reason = kafka_error(error)
                if reason.code() == KafkaError._NOENT and self._exists(key.topic, key.partition):
                    reason = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)  # the client has one code for both
                if last_chance or reason.code() not in _LEADER_MOVES:
                    raise self._error(reason, "asking for offsets", topic=key.topic, partition=key.partition) from error
        return offsets

    def _exists(self, topic: str, partition: int) -> bool:
        description = self._descriptions([topic]).get(topic)
        return description is not None and partition < len(description.partitions)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """As `Log.delete_records`."""
        wanted = [confluent_kafka.TopicPartition(*partition, offset) for partition, offset in before.items()]
        client = self.client
        futures = client.delete_records(wanted, request_timeout=self._timeout_s) if wanted else {}
        for key, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                raise self._error(
                    kafka_error(error), "deleting records", topic=key.topic, partition=key.partition
                ) from error

    def commit_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """As `Log.commit_group_offsets`."""
        if not offsets:
            return
        try:
            answer = self._member(group).commit(offsets, min(self._timeout_s, _COMMIT_S))
        except KafkaException as error:
            raise self._error(kafka_error(error), "committing offsets of a group", group=group) from error
        for entry in answer:
            if entry.error is not None:
                place = {"topic": entry.topic, "partition": entry.partition}
                raise self._error(entry.error, "committing offsets of a group", group=group, **place)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """As `Log.group_offsets`; empty for a group that does not exist."""
        topics = self._names()
        if _OFFSETS_TOPIC not in topics:
            return {}
        wanted = [
            confluent_kafka.TopicPartition(name, number)
            for name, topic in topics.items()
            if not name.startswith("__")
            for number in topic.partitions
        ]
        try:
            committed = self._member(group).committed(wanted, self._timeout_s)
        except KafkaException as error:
            raise self._error(kafka_error(error), "reading offsets of a group", group=group) from error
        return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in committed if entry.offset >= 0}

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; nothing happens if there is none."""
        if _OFFSETS_TOPIC not in self._names():
            return  # no group ever committed here, so groups have no coordinator: deleting one would wait for nothing
        client = self.client
        future = client.delete_consumer_groups([group], request_timeout=self._timeout_s)[group]
        try:
            future.result()
        except KafkaException as error:
            if kafka_error(error).code() not in _GONE:
                raise self._error(kafka_error(error), "deleting a group", group=group) from error

    def _member(self, group: str) -> GroupMember:
        if group not in self._members:
            self._members[group] = GroupMember(self._config, group)
        return self._members[group]

    def _error(self, reason: KafkaError, doing: str, **context: object) -> LogError:
        return explained_error(self._config, "admin", reason, doing, **context)

    def _names(self) -> dict[str, TopicMetadata]:
        """All topics by name, Kafka's internal ones included."""
        try:
            topics = self.client.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise self._error(kafka_error(error), "listing topics") from error
        return topics

    def _result(self, future: Future[Answer], doing: str, topic: str) -> Answer:
        try:
            return future.result()
        except KafkaException as error:
            raise self._error(kafka_error(error), doing, topic=topic) from error


def own_partitions(name: str, count: int) -> Iterable[TopicPartition]:
    """All partitions of a topic."""
    return (TopicPartition(name, number) for number in range(count))


def _own(settings: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """Those made on the topic itself."""
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        name: entry.value or ""
        for name, entry in settings.items()
        if entry.source == own  # type: ignore[comparison-overlap] # it is given as a number
    }


def _no_broker_yet(reason: KafkaError) -> bool:
    """Whether no broker could take a partition just now: all are starting, or were held up and will say so again."""
    return reason.code() == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in reason.str()


def _invalid_setting(reason: KafkaError, topic: str) -> ConfigError:
    return ConfigError(
        "INVALID_SETTING", f"Kafka refused the settings of the topic: {reason.str().rstrip('.')}", topic=topic
    )
