"""What only a Kafka log's reader has to stand: offsets without records, and consumers that stand somewhere else."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.kafka import raw_records

from hayase.core.errors import LogError, UnknownTopicError
from hayase.core.records import UNREADABLE_HEADERS, TopicPartition
from hayase.log.kafka.log import KafkaLog
from hayase.log.kafka.reader import KafkaReader
from hayase.log.protocol import LogConfig, OutputBatch
from hayase.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture
def log(broker: KafkaBroker) -> Iterator[KafkaLog]:
    opened = KafkaLog(LogConfig("kafka", broker.bootstrap_servers))
    yield opened
    opened.close()


@pytest.fixture
def reader(log: KafkaLog) -> Iterator[KafkaReader]:
    opened = log.reader()
    yield opened
    opened.close()


@pytest.fixture
def where(log: KafkaLog) -> TopicPartition:
    return TopicPartition(log.create_topic(f"t-{uuid.uuid4().hex[:12]}", 1).name, 0)


@pytest.fixture
def producer(broker: KafkaBroker, where: TopicPartition) -> Producer:
    """A transactional producer that has nothing to do with the log under test."""
    made = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": where.topic})
    made.init_transactions(30)
    return made


def _transaction(producer: Producer, topic: str, *values: bytes, commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def _append(log: KafkaLog, topic: str, *values: bytes) -> None:
    writer = log.writer()
    writer.append([OutputBatch(topic, [b""] * len(values), list(values), [1] * len(values))])
    writer.close()


def _values(reader: KafkaReader, where: TopicPartition, start: int, end: int) -> list[bytes | None]:
    return [value for part in reader.fetch(where, start, end) for value in part.values]


def _wait_for_end(log: KafkaLog, where: TopicPartition, end: int) -> None:
    deadline = time.monotonic() + 20
    while log.end_offsets([where])[where] < end:
        assert time.monotonic() < deadline, "the transactions did not end"
        time.sleep(0.005)


def test_a_range_ends_where_only_transaction_markers_and_aborted_records_are_left(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, producer: Producer
) -> None:
    _transaction(producer, where.topic, b"a", b"b")
    _transaction(producer, where.topic, b"c", b"d", commit=False)
    _transaction(producer, where.topic, b"e", commit=False)
    _wait_for_end(log, where, 8)
    assert _values(reader, where, 0, 8) == [b"a", b"b"]
    assert _values(reader, where, 1, 8) == [b"b"]


@pytest.mark.parametrize("start", [2, 3, 5, 7])
def test_a_range_without_any_record_is_empty_and_does_not_hang(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, producer: Producer, start: int
) -> None:
    _transaction(producer, where.topic, b"a", b"b")
    _transaction(producer, where.topic, b"c", b"d", commit=False)
    _transaction(producer, where.topic, b"e", commit=False)
    _wait_for_end(log, where, 8)
    began = time.monotonic()
    assert _values(reader, where, start, 8) == []
    assert time.monotonic() - began < 5


def test_a_jump_back_to_a_range_of_markers_only_is_not_taken_for_read_when_the_old_position_is_behind_it(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, producer: Producer
) -> None:
    for number in range(10):
        _transaction(producer, where.topic, b"%d" % number)
    _wait_for_end(log, where, 20)
    for _ in range(20):
        assert _values(reader, where, 12, 20) == [b"6", b"7", b"8", b"9"]
        assert _values(reader, where, 1, 4) == [b"1"]
        assert _values(reader, where, 0, 3) == [b"0", b"1"]


def test_ranges_that_follow_each_other_give_every_record_once(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, producer: Producer
) -> None:
    expected: list[bytes | None] = []
    for number in range(30):
        values = [b"%d-%d" % (number, index) for index in range(100)]
        _transaction(producer, where.topic, *values, commit=number % 3 != 0)
        if number % 3 != 0:
            expected += values
    _wait_for_end(log, where, 3_030)
    # Borders fall on records, on aborted ones and on markers.
    read: list[bytes | None] = []
    borders = [*range(0, 3_030, 37), 3_030]
    for start, end in pairwise(borders):
        read += _values(reader, where, start, end)
    assert read == expected


def test_partitions_may_be_read_alternately(log: KafkaLog, reader: KafkaReader) -> None:
    topic = log.create_topic(f"t-{uuid.uuid4().hex[:12]}", 12).name
    count = 4_000
    writer = log.writer()
    for number in range(12):
        values: list[bytes | None] = [b"%d-%d" % (number, index) for index in range(count)]
        there = np.full(count, number, np.int32)
        writer.append([OutputBatch(topic, [None] * count, values, [1] * count, there)])
    writer.close()
    ranges = [reader.fetch(TopicPartition(topic, number), 0, count) for number in range(12)]
    firsts = [next(each) for each in ranges]
    rest = [[value for part in each for value in part.values] for each in ranges]
    for number, (first, more) in enumerate(zip(firsts, rest, strict=True)):
        assert first.values + more == [b"%d-%d" % (number, index) for index in range(count)]


def test_a_range_given_up_half_way_can_be_read_again(log: KafkaLog, reader: KafkaReader, where: TopicPartition) -> None:
    values = [b"%d" % index for index in range(100_000)]
    _append(log, where.topic, *values)
    half = reader.fetch(where, 0, 90_000)
    next(half)
    half.close()
    assert _values(reader, where, 0, 90_000) == values[:90_000]
    assert _values(reader, where, 90_000, 100_000) == values[90_000:]


def test_large_records_come_in_batches_of_bounded_size(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition
) -> None:
    _append(log, where.topic, *[b"x" * 500_000] * 60)
    sizes = [sum(map(len, part.values)) for part in reader.fetch(where, 0, 60)]  # type: ignore[arg-type]
    assert sum(sizes) == 30_000_000
    assert max(sizes) <= 16_000_000


def test_a_reader_goes_on_with_a_topic_that_was_made_anew(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition
) -> None:
    _append(log, where.topic, b"old 0", b"old 1", b"old 2")
    assert _values(reader, where, 0, 2) == [b"old 0", b"old 1"]
    old_id = log.describe([where.topic])[where.topic].topic_id
    log.delete_topic(where.topic)
    assert log.create_topic(where.topic, 1).topic_id != old_id
    _append(log, where.topic, b"new 0", b"new 1")
    assert _values(reader, where, 0, 2) == [b"new 0", b"new 1"]


def test_a_topic_that_is_deleted_under_a_reader_is_an_error(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition
) -> None:
    _append(log, where.topic, b"a", b"b")
    assert _values(reader, where, 0, 2) == [b"a", b"b"]
    log.delete_topic(where.topic)
    with pytest.raises(UnknownTopicError):
        _values(reader, where, 2, 3)


def test_a_reader_can_be_used_on_both_sides_of_a_fork(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition
) -> None:
    _append(log, where.topic, b"a", b"b", b"c")
    assert _values(reader, where, 0, 1) == [b"a"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if _values(reader, where, 1, 3) == [b"b", b"c"] else 2
            reader.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert _values(reader, where, 1, 3) == [b"b", b"c"]


def test_the_reader_follows_a_topic_while_it_grows(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, producer: Producer
) -> None:
    read: list[bytes | None] = []
    position = 0
    for number in range(25):
        _transaction(producer, where.topic, b"%d" % number)
        _wait_for_end(log, where, 2 * number + 2)
        read += _values(reader, where, position, 2 * number + 2)
        position = 2 * number + 2
    assert read == [b"%d" % number for number in range(25)]


@pytest.mark.parametrize(("behind", "ahead"), [(20, False), (3_000, True)])
def test_the_reader_asks_for_what_is_behind_a_range_only_if_that_is_much(
    log: KafkaLog, reader: KafkaReader, where: TopicPartition, behind: int, ahead: bool
) -> None:
    _append(log, where.topic, *(b"%d" % number for number in range(10 + behind)))
    _wait_for_end(log, where, 10 + behind)
    assert _values(reader, where, 0, 10) == [b"%d" % number for number in range(10)]
    (cursor,) = reader._idle
    assert cursor.streaming == ahead
    assert _values(reader, where, 10, 10 + behind) == [b"%d" % number for number in range(10, 10 + behind)]
    assert not cursor.streaming, "at the end there is nothing to ask for"


def test_headers_whose_names_are_not_text_are_replaced_by_one_that_says_so_and_the_records_come(
    broker: KafkaBroker, reader: KafkaReader, where: TopicPartition, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[list[tuple[bytes, bytes]]] = [[], [(b"\xff\xfe", b"x")], [(b"name", b"value")]]
    records = b"".join(raw_records.record(index, b"v%d" % index, headers) for index, headers in enumerate(given))
    assert raw_records.produce(broker.bootstrap_servers, where.topic, raw_records.batch(records, 3)) == 0
    (batch,) = reader.fetch(where, 0, 3)
    assert batch.values == [b"v0", b"v1", b"v2"]
    assert batch.headers == [(), UNREADABLE_HEADERS, (("name", b"value"),)]
    assert f"topic {where.topic}, partition 0, at offset 1 cannot be read" in caplog.text


def test_a_batch_that_the_client_cannot_read_is_damage_with_its_place_and_not_waited_for(
    broker: KafkaBroker, reader: KafkaReader, where: TopicPartition, log: KafkaLog
) -> None:
    good = raw_records.batch(raw_records.record(0, b"v"), 1)
    assert raw_records.produce(broker.bootstrap_servers, where.topic, good) == 0
    bomb = pa.compress(raw_records.record(0, bytes(150 << 20)), codec="zstd", asbytes=True)
    assert raw_records.produce(broker.bootstrap_servers, where.topic, raw_records.batch(bomb, 1, raw_records.ZSTD)) == 0
    with pytest.raises(LogError) as caught:
        list(reader.fetch(where, 0, 2))
    assert caught.value.condition == "LOG_DAMAGED"
    assert (caught.value.context["topic"], caught.value.context["partition"]) == where
