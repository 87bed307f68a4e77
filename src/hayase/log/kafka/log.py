"""The log on a Kafka cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import OffsetSpec

from hayase.core.records import TopicPartition
from hayase.log.kafka.admin import EARLIEST, LATEST, KafkaAdmin
from hayase.log.kafka.clients import explained_error, kafka_error
from hayase.log.kafka.markers import MarkerTopics, is_markers_topic, markers_topic
from hayase.log.kafka.reader import KafkaReader
from hayase.log.kafka.slot_ids import SlotIds
from hayase.log.kafka.transactions import TransactionalProducer
from hayase.log.kafka.writer import KafkaWriter
from hayase.log.protocol import LogConfig, Marker, TopicInfo

_PREPARE_S = 30.0


class KafkaLog:
    """Topics of a Kafka cluster. See `Log` for what each method promises.

    What is particular to Kafka:

    * Options are librdkafka's settings, with the prefix `consumer.`, `producer.` or `admin.` if they are meant for
      one kind of client. Those that correctness depends on are refused. Security settings of the Java clients are
      translated (`hayase.core.kafka_security`), references to secrets resolved (`hayase.core.secrets`).
    * A cluster that does not let the client in is an error at once: `AUTHENTICATION_FAILED`, `TLS_FAILED`.
    * What a transaction wrote can be read, and moves the end offset, a few milliseconds after it was committed.
    * The client cannot write the timestamp 0; such a record is written with 1.
    * Topic ids and partition counts are always those of now; topic settings may be a minute old.
    * A log used in a forked child makes connections of its own.

    Args:
        config: `location` is `host:port[,host:port…]`.
        monotonic: the clock for timeouts, in seconds.
        sleep: waits that many seconds between two attempts.
    """

    def __init__(
        self,
        config: LogConfig,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._monotonic = monotonic
        self._sleep = sleep
        self._admin = KafkaAdmin(config, monotonic=monotonic, sleep=sleep)
        self._markers = MarkerTopics(config, self._admin, monotonic=monotonic)

    def create_topic(
        self, name: str, partitions: int, config: Mapping[str, str] | None = None, *, replicas: int | None = None
    ) -> TopicInfo:
        """See `Log.create_topic`."""
        return self._admin.create_topic(name, partitions, config or {}, replicas)

    def delete_topic(self, name: str) -> None:
        """See `Log.delete_topic`."""
        self._admin.delete_topic(name)

    def topic_config(self, name: str) -> dict[str, str]:
        """See `Log.topic_config`. Asks the cluster in every call."""
        return self._admin.topic_config(name)

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> TopicInfo:
        """See `Log.alter_topic_config`. The brokers act on it when they next look at their logs."""
        return self._admin.alter_topic_config(name, changes)

    def topics(self) -> list[str]:
        """See `Log.topics`. Left out are Kafka's internal topics and Hayase's epochs topics."""
        names = self._admin.topics()
        maybe_own = self._admin.describe([name for name in names if name.endswith("-epochs")])
        own = {name for name, info in maybe_own.items() if is_markers_topic(name, info.config)}
        return [name for name in names if name not in own]

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """See `Log.describe`. `config` holds what is set on the topic itself, not the cluster's defaults."""
        return self._admin.describe(names)

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """See `Log.start_offsets`."""
        return self._admin.offsets(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """See `Log.end_offsets`."""
        return self._admin.offsets(dict.fromkeys(partitions, LATEST))

    def written_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """See `Log.written_offsets`: the high watermark."""
        return self._admin.offsets(dict.fromkeys(partitions, LATEST), committed=False)

    def unfinished(self, partitions: Sequence[TopicPartition]) -> bool:
        """See `Log.unfinished`."""
        written = self.written_offsets(partitions)
        committed = self.end_offsets(partitions)
        return any(committed[partition] < end for partition, end in written.items())

    def offsets_for_time(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See `Log.offsets_for_time`."""
        offsets = self._admin.offsets(
            {partition: OffsetSpec.for_timestamp(time_ms) for partition, time_ms in times_ms.items()}
        )
        behind = [partition for partition, offset in offsets.items() if offset < 0]
        return offsets | self.end_offsets(behind)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """See `Log.delete_records`."""
        self._admin.delete_records(before)

    def markers(self, application_id: str, *, wait: bool = True) -> dict[str, Marker]:
        """See `Log.markers`.

        Raises:
            LogError: `BROKER_UNAVAILABLE` if one stays open for more than a minute and a half.
        """
        return self._markers.all(application_id, wait=wait)

    def marker(self, application_id: str, bundle: str, plan_position: int | None = None) -> Marker | None:
        """See `Log.marker`; raises as `markers` does."""
        return self._markers.named(application_id, bundle, plan_position)

    def prepare_markers(self, application_id: str) -> None:
        """See `Log.prepare_markers`: makes the epochs topic."""
        self._markers.ensure(application_id)

    def prepare_transactions(self, name: str) -> None:
        """See `Log.prepare_transactions`: takes an id of its own, and the broker loads what it needs."""
        try:
            TransactionalProducer(
                self._config, f"{name}-first", None, timeout_s=_PREPARE_S, transaction_timeout_s=_PREPARE_S
            ).discard()
        except KafkaException as error:
            raise explained_error(self._config, "producer", kafka_error(error), "preparing transactions") from error

    def end_attempts(self, application_id: str, checkpoint_id: str, bundles: Collection[str]) -> None:
        """See `Log.end_attempts`: takes all transactional ids under which the bundles may be published."""
        ids = SlotIds(self._config, monotonic=self._monotonic, sleep=self._sleep)
        try:
            ids.end_attempts(application_id, bundles)
        finally:
            ids.close()

    def delete_markers(self, application_id: str) -> None:
        """See `Log.delete_markers`: deletes the epochs topic and the consumer group of that name."""
        name = markers_topic(application_id)
        if self._admin.describe([name]):
            self._admin.delete_topic(name)
        self._admin.delete_group(application_id)

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See `Log.commit_group_offsets`. The group must have no members."""
        self._admin.commit_group(group, offsets)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """See `Log.group_offsets`."""
        return self._admin.group_offsets(group)

    def reader(self) -> KafkaReader:
        """See `Log.reader`."""
        return KafkaReader(self._config, monotonic=self._monotonic)

    def writer(self) -> KafkaWriter:
        """See `Log.writer`."""
        return KafkaWriter(self._config, monotonic=self._monotonic, sleep=self._sleep)

    def close(self) -> None:
        """See `Log.close`. Readers and writers are closed by their owners."""
        self._markers.close()
        self._admin.close()
