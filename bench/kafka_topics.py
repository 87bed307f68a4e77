"""Topics of a Kafka broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_S = 30.0
_LOAD_TIMEOUT_S = 300.0
_LEADERS_TIMEOUT_S = 60.0
_READ_TIMEOUT_S = 60.0
_CONSUME_S = 0.5


class KafkaTopics:
    """The `Topics` of a broker.

    Attributes:
        bootstrap: address of the broker.
    """

    def __init__(self, bootstrap: str) -> None:
        self.arguments = ["--bootstrap", bootstrap]
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})

    def create(self, name: str, partitions: int) -> None:
        """See Topics; waits until each partition has a leader."""
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
        end = time.monotonic() + _TIMEOUT_S
        while True:
            found = self._admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions.values()
            if len(found) == partitions and all(partition.leader >= 0 for partition in found):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"the partitions of {name} have no leaders after {_TIMEOUT_S:g} s")
            time.sleep(0.05)

    def delete(self, prefix: str) -> None:
        """See Topics."""
        names = [name for name in self._admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        if names:
            for future in self._admin.delete_topics(names).values():
                future.result(30)

    def load(self, name: str, records: Iterable[tuple[str, str | bytes, int]]) -> None:
        """See Topics."""
        count = 0
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 3,
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 50,
                "batch.size": 512 * 1024,
                "queue.buffering.max.messages": 1_000_000,
                "enable.idempotence": True,
            }
        )
        for key, value, timestamp_ms in records:
            count += 1
            while True:
                try:
                    producer.produce(name, value, key, timestamp=timestamp_ms)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(_LOAD_TIMEOUT_S)
        if left:
            raise TimeoutError(f"the broker did not acknowledge {left} records within {_LOAD_TIMEOUT_S:g} s")
        if (found := sum(end_offsets(self._admin, self._all(name)))) != count:
            raise RuntimeError(f"{name} has {found} records instead of {count}")

    def progress(self, application_id: str, source: str, target: str) -> KafkaProgress:
        """See Topics."""
        return KafkaProgress(self.bootstrap, self._admin, application_id, self._all(source), self._all(target))

    def read(self, name: str) -> Iterator[tuple[bytes, bytes | None]]:
        """See Topics."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 3,
                "group.id": "bench-check",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "queued.max.messages.kbytes": 32 * 1024,
            }
        )
        try:
            partitions = self._all(name)
            consumer.assign([TopicPartition(name, one.partition, 0) for one in partitions])
            unfinished = {one.partition for one in partitions}
            quiet_s = 0.0
            while unfinished:
                messages = consumer.consume(10_000, timeout=_CONSUME_S)  # waits for that many or that long
                quiet_s = 0.0 if messages else quiet_s + _CONSUME_S
                if quiet_s >= _READ_TIMEOUT_S:
                    raise TimeoutError(f"no record of {name} within {_READ_TIMEOUT_S:g} s")
                for message in messages:
                    if (error := message.error()) is None:
                        yield message.key() or b"", message.value()
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    else:
                        raise RuntimeError(str(error))
        finally:
            consumer.close()

    def close(self) -> None:
        """See Topics; there is nothing to do."""

    def _all(self, name: str) -> list[TopicPartition]:
        found = self._admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
        return [TopicPartition(name, partition) for partition in sorted(found)]


class KafkaProgress:
    """Committed input and visible output of one application. The same for everybody.

    Args:
        bootstrap: address of the broker.
        admin: a client of it.
        application_id: the consumer group whose offsets say what has been processed.
        source: partitions of the input; their length is read once, here.
        target: partitions of the output.
    """

    def __init__(
        self,
        bootstrap: str,
        admin: AdminClient,
        application_id: str,
        source: list[TopicPartition],
        target: list[TopicPartition],
    ) -> None:
        self._admin = admin
        # A consumer that never joins. The admin client's list_consumer_group_offsets ends in a SIGSEGV inside
        # librdkafka 2.16 for some answers of the group's coordinator.
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": application_id,
            "enable.auto.commit": False,
            "log_level": 3,
        }
        self._consumer = Consumer(settings)
        self._source = source
        self._target = target
        self.input_end = sum(end_offsets(admin, source))

    def processed(self) -> int:
        """Input records below the committed offsets of the group, over all partitions."""
        try:
            committed = self._consumer.committed(self._source, timeout=_TIMEOUT_S)
        except KafkaException:  # the group does not exist yet
            return 0
        return sum(max(0, partition.offset) for partition in committed)

    def output_end(self) -> int:
        """Sum of the output's last stable offsets; transaction markers count."""
        return sum(end_offsets(self._admin, self._target))


def end_offsets(admin: AdminClient, partitions: list[TopicPartition]) -> list[int]:
    """Last stable offsets; asked again for some time while leaders move."""
    until = time.monotonic() + _LEADERS_TIMEOUT_S
    while True:
        futures = admin.list_offsets(
            {partition: OffsetSpec.latest() for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        try:
            return [future.result().offset for future in futures.values()]
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
