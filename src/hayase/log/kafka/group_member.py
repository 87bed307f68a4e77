"""The committed offsets of a consumer group, by a consumer that never joins it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from hayase.core.records import TopicPartition
from hayase.log.kafka.clients import open_consumer
from hayase.log.protocol import LogConfig

_POLL_S = 0.1
_ANSWER_POLL_S = 0.001
"""A poll serves the answer to a commit, and then goes on waiting for records that do not come: for all of its time."""
_COORDINATOR_MOVES = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_Entries = Sequence[confluent_kafka.TopicPartition]
_Offsets = frozenset[tuple[str, int, int]]


class GroupMember:
    """A kept consumer of the group.

    Not the admin client: its first request to a group on a new cluster waits 30 s for a coordinator that is there after
    one, and some answers to its list_consumer_group_offsets end in a SIGSEGV (librdkafka 2.16).
    """

    def __init__(self, config: LogConfig, group: str) -> None:
        self.consumer = open_consumer(config, on_commit=self._answered, group_id=group)
        self._answers: dict[_Offsets, tuple[KafkaError | None, _Entries]] = {}

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> _Entries:
        """Commit offsets; returns them with the error that each of them met, if any.

        The consumer's own commit waits forever while the brokers are away, so this asks and waits apart.

        Raises:
            KafkaException: all were refused, or there was no answer in time; it may be done all the same then.
        """
        entries = [confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        asked = _which(entries)
        self._answers.clear()
        self.consumer.commit(offsets=entries, asynchronous=True)
        deadline = time.monotonic() + timeout_s
        while asked not in self._answers:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self.consumer.poll(_ANSWER_POLL_S)
        error, answered = self._answers.pop(asked)
        if error is not None and not any(entry.error is not None for entry in answered):
            raise KafkaException(error)
        return answered

    def committed(self, wanted: list[confluent_kafka.TopicPartition], timeout_s: float) -> _Entries:
        """What is committed for partitions. A coordinator that is being chosen, as on a new cluster, is waited for.

        Raises:
            KafkaException: there is no answer in time, or it is an error.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                entries: _Entries = self.consumer.committed(wanted, timeout=timeout_s)
            except KafkaException as error:
                if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() >= deadline:
                    raise
                self.consumer.poll(_POLL_S)
            else:
                return entries

    def _answered(self, error: KafkaError | None, entries: _Entries) -> None:
        self._answers[_which(entries)] = error, entries


def _which(entries: _Entries) -> _Offsets:
    return frozenset((entry.topic, entry.partition, entry.offset) for entry in entries)
