"""Markers that several threads read at the same time over one connection: the topologies of a shared runtime."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from hayase.connect.generations import marker_number
from hayase.core.records import TopicPartition
from hayase.log.kafka import markers
from hayase.log.kafka.markers import MarkerTopics, encode_marker, is_moved, moved_marker
from hayase.log.protocol import LogConfig, Marker

WAIT_S = 10.0
PARTITIONS = [TopicPartition(f"app-{number}-epochs", 0) for number in range(2)]


class Ends:
    """Says that each partition has one record."""

    def offsets(self, wanted: Mapping[TopicPartition, object], *, committed: bool = True) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, 1)


class Message:
    def __init__(self, partition: TopicPartition, error: KafkaError | None = None) -> None:
        self._partition, self._error = partition, error

    def topic(self) -> str:
        return self._partition.topic

    def partition(self) -> int:
        return self._partition.partition

    def offset(self) -> int:
        return 1

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> bytes:
        return b"0"

    def value(self) -> bytes:
        return encode_marker(marker_of(self._partition))


class Consumer:
    """Reads what was assigned to it last, once both threads have begun to read."""

    both_read = threading.Barrier(2)

    def __init__(self) -> None:
        self.assigned: list[TopicPartition] = []
        self.at_end = False
        self.asked_for: list[str] = []

    def assign(self, partitions: Iterable[Any]) -> None:
        self.assigned, self.at_end = [TopicPartition(each.topic, each.partition) for each in partitions], False

    def list_topics(self, topic: str, timeout: float) -> None:
        assert topic in [each.topic for each in self.assigned], "only assigned topics learn from the answer"
        self.asked_for.append(topic)

    def unassign(self) -> None:
        self.assigned = []

    def close(self) -> None:
        """Nothing to let go of."""

    def poll(self, timeout: float) -> Message:
        if not self.at_end:
            self.both_read.wait(WAIT_S)
            self.at_end = True
            return Message(self.assigned[0])
        return Message(self.assigned[0], KafkaError(KafkaError._PARTITION_EOF))


def marker_of(partition: TopicPartition) -> Marker:
    return Marker("L", PARTITIONS.index(partition), "d")


def test_reads_at_the_same_time_do_not_get_each_others_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Consumer] = []

    def open_consumer(config: LogConfig) -> Consumer:
        opened.append(Consumer())
        return opened[-1]

    monkeypatch.setattr(markers, "open_consumer", open_consumer)
    ends: Any = Ends()
    topics = MarkerTopics(LogConfig("kafka", "localhost:1"), ends)
    read: dict[TopicPartition, Marker | None] = {}
    threads = [
        threading.Thread(target=lambda partition=partition: read.update({partition: topics.last(partition, "0")}))
        for partition in PARTITIONS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert read == {partition: marker_of(partition) for partition in PARTITIONS}


def test_the_leader_of_a_topic_that_is_new_to_the_consumer_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client itself asks for new topics once a second: each topology of a runtime would wait for that."""
    consumer = Consumer()
    monkeypatch.setattr(Consumer, "both_read", threading.Barrier(1))
    monkeypatch.setattr(markers, "open_consumer", lambda _: consumer)
    ends: Any = Ends()
    topics = MarkerTopics(LogConfig("kafka", "localhost:1"), ends)
    for partition in (*PARTITIONS, *PARTITIONS):
        assert topics.last(partition, "0") == marker_of(partition)
    assert consumer.asked_for == [partition.topic for partition in PARTITIONS]


def test_a_marker_of_a_connector_is_not_taken_for_one_of_a_bundle_that_has_moved() -> None:
    assert is_moved(moved_marker("L", "runtime"))
    assert not any(is_moved(Marker("L", marker_number(generation, 0), "n")) for generation in (1, 2, 1 << 20))
