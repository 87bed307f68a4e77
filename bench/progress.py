"""Watches from outside, on the broker, how far an application is. The same for both sides."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_S = 10.0
PARTITIONS = 2


class Progress:
    """Committed input and visible output of one application.

    Args:
        bootstrap: address of the broker.
        application_id: the consumer group whose offsets say what has been processed.
        input_topic: its length is read once, here.
        output_topic: must exist.
    """

    def __init__(self, bootstrap: str, application_id: str, input_topic: str, output_topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
        # A consumer that never joins. The admin client's list_consumer_group_offsets ends in a SIGSEGV inside librdkafka 2.16
        # for some answers of the group's coordinator.
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": application_id,
            "enable.auto.commit": False,
            "log_level": 3,
        }
        self._consumer = Consumer(settings)
        self._input = [TopicPartition(input_topic, partition) for partition in range(PARTITIONS)]
        self._output = [TopicPartition(output_topic, partition) for partition in range(PARTITIONS)]
        self.input_end = sum(self._ends(self._input))

    def processed(self) -> int:
        """Input records below the committed offsets of the group, over all partitions."""
        try:
            committed = self._consumer.committed(self._input, timeout=_TIMEOUT_S)
        except KafkaException:  # the group does not exist yet
            return 0
        return sum(max(0, partition.offset) for partition in committed)

    def output_end(self) -> int:
        """Sum of the output's last stable offsets; transaction markers count."""
        return sum(self._ends(self._output))

    def _ends(self, partitions: list[TopicPartition]) -> list[int]:
        futures = self._admin.list_offsets(
            {partition: OffsetSpec.latest() for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        return [future.result().offset for future in futures.values()]


def create_topic(bootstrap: str, name: str) -> None:
    """Create a topic and wait until each of its partitions has a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    end = time.monotonic() + _TIMEOUT_S
    while True:
        leaders = [
            partition.leader
            for partition in admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions.values()
        ]
        if len(leaders) == PARTITIONS and min(leaders) >= 0:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"the partitions of {name} have no leaders after {_TIMEOUT_S:g} s")
        time.sleep(0.05)


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete every topic whose name begins with `prefix`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
    if names:
        for future in admin.delete_topics(names).values():
            future.result(30)
