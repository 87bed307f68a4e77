"""Records: what is appended is what is fetched."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import numpy as np
import pytest
from tests.behaviour.log.helpers import (
    answer_with_values,
    append,
    append_many,
    batch,
    bounds,
    everything,
    fetch,
    values,
)

from hayase.core.errors import ProductionError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import Headers, TopicPartition
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.serde.murmur2 import partition_for_key

SPAWN = multiprocessing.get_context("spawn")


def test_records_are_fetched_in_the_order_of_appending(log: Log, topic: str) -> None:
    for number in range(5):
        append(log, batch(topic, [b"%d-%d" % (number, index) for index in range(100)]))
    assert values(log, topic) == [b"%d-%d" % (number, index) for number in range(5) for index in range(100)]


def test_any_part_of_what_is_there_can_be_fetched(log: Log, topic: str) -> None:
    for number in range(4):
        append(log, batch(topic, [b"%d-%d" % (number, index) for index in range(5)]))
    rows = everything(log, topic)
    start, end = bounds(log, topic)
    for low in range(start, end + 1):
        for high in range(low, end + 1):
            assert fetch(log, topic, low, high) == [row for row in rows if low <= row.offset < high]


def test_one_reader_serves_ranges_in_any_order(log: Log, four: str) -> None:
    append(log, batch(four, [b"%d" % index for index in range(40)], partitions=[index % 4 for index in range(40)]))
    reader = log.reader()

    def read(partition: int, low: int, high: int) -> list[bytes | None]:
        start = bounds(log, four, partition)[0]
        parts = reader.fetch(TopicPartition(four, partition), start + low, start + high)
        return [value for part in parts for value in part.values]

    assert read(0, 0, 2) == [b"0", b"4"]
    assert read(0, 2, 4) == [b"8", b"12"]
    assert read(3, 1, 3) == [b"7", b"11"]
    assert read(0, 1, 5) == [b"4", b"8", b"12", b"16"]
    assert read(0, 0, 10) == [b"%d" % index for index in range(0, 40, 4)]
    reader.close()


def test_an_empty_range_has_no_records(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"v"]))
    assert fetch(log, topic, 0, 0) == []


def test_keys_and_values_may_be_null_or_empty(log: Log, topic: str) -> None:
    keys = [None, b"", b"k", b"k"]
    given = [b"v", b"v", None, b""]
    append(log, batch(topic, given, keys=keys, partitions=[0] * 4))
    assert [(row.key, row.value) for row in everything(log, topic)] == list(zip(keys, given, strict=True))


def test_headers_keep_order_repeated_names_and_null_values(log: Log, topic: str) -> None:
    headers: list[Headers] = [(("a", b"1"), ("b", None), ("a", b"")), (), (("ü", b"\0"),)]
    append(log, batch(topic, [b"1", b"2", b"3"], headers=headers))
    append(log, batch(topic, [b"4"]))
    assert [row.headers for row in everything(log, topic)] == [*headers, ()]


def test_timestamps_are_kept_to_the_millisecond(log: Log, topic: str) -> None:
    times = [1, 1_700_000_000_123, 5, 253_402_300_799_999]
    append(log, batch(topic, [b"v"] * 4, times=times))
    assert [row.timestamp_ms for row in everything(log, topic)] == times


def test_a_large_append_comes_back_whole_and_in_several_batches(log: Log, topic: str) -> None:
    given: list[bytes | None] = [b"%08d" % index + b"x" * 92 for index in range(150_000)]
    append(log, batch(topic, given))
    reader = log.reader()
    start, end = bounds(log, topic)
    fetched: list[bytes | None] = []
    for part in reader.fetch(TopicPartition(topic, 0), start, end):
        assert len(part) <= 100_000
        fetched += part.values
    reader.close()
    assert fetched == given


@pytest.mark.long
def test_keys_go_where_murmur2_sends_them(log: Log, four: str) -> None:
    keys: list[bytes | None] = [b"key-%d" % index for index in range(100)]
    append(log, batch(four, keys, keys=keys))
    for partition in range(4):
        assert values(log, four, partition) == [key for key in keys if key and partition_for_key(key, 4) == partition]


def test_null_keys_go_by_their_position_in_the_batch(log: Log, four: str) -> None:
    keys = [None, b"a", None, None, b"b", None, None]
    append(log, batch(four, [b"%d" % index for index in range(7)], keys=keys))
    found = {value: partition for partition in range(4) for value in values(log, four, partition)}
    assert [found[b"%d" % index] for index in (0, 2, 3, 5, 6)] == [0, 2, 3, 1, 2]
    assert found[b"1"] == partition_for_key(b"a", 4)


def test_a_batch_may_choose_partitions_itself(log: Log, four: str) -> None:
    append(log, batch(four, [b"a", b"b", b"c"], keys=[b"k"] * 3, partitions=[3, 0, 3]))
    assert [values(log, four, partition) for partition in range(4)] == [[b"b"], [], [], [b"a", b"c"]]


def test_a_partition_that_does_not_exist_is_refused(log: Log, topic: str) -> None:
    with pytest.raises(ProductionError):
        append(log, batch(topic, [b"v"], partitions=[1]))


def test_a_record_larger_than_the_topic_allows_is_refused(log: Log, topic: str) -> None:
    name = log.create_topic(topic + "-small", 1, {"max.message.bytes": "1000"}).name
    with pytest.raises(ProductionError):
        append(log, batch(name, [b"ok", os.urandom(10_000)]))


def test_a_compacted_topic_refuses_records_without_key(log: Log, topic: str) -> None:
    name = log.create_topic(topic + "-compact", 1, {"cleanup.policy": "compact"}).name
    with pytest.raises(ProductionError):
        append(log, batch(name, [b"v"]))


def test_appending_to_a_topic_that_does_not_exist_is_an_error(log: Log) -> None:
    with pytest.raises(UnknownTopicError):
        append(log, batch("no-such-topic", [b"v"]))


def test_appending_nothing_changes_nothing(log: Log, topic: str) -> None:
    append(log)
    append(log, OutputBatch(topic, [], [], []))
    assert bounds(log, topic) == (0, 0)


def test_one_append_may_hold_several_batches_of_a_topic(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"a"]), batch(topic, [b"b"]), batch(topic, [b"c"]))
    assert values(log, topic) == [b"a", b"b", b"c"]


def test_a_range_that_is_not_all_there_is_an_error_that_says_where(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"v"] * 2))
    with pytest.raises(SourceRangeLostError) as error:
        fetch(log, topic, 0, 5)
    assert error.value.condition == "SOURCE_RANGE_LOST"
    assert error.value.context["topic"] == topic
    assert error.value.context["partition"] == 0
    assert error.value.context["offset"] in {2, 5}


def test_fetching_from_a_topic_that_does_not_exist_is_an_error(log: Log) -> None:
    with pytest.raises(UnknownTopicError):
        fetch(log, "no-such-topic", 0, 1)


def test_the_offset_for_a_time_is_the_first_at_or_after_it(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"v"] * 3, times=[100, 300, 200]))
    append(log, batch(topic, [b"v"] * 2, times=[150, 250]))
    append(log, batch(topic, [b"v"] * 2, times=[500, 400]))
    rows = everything(log, topic)
    where = TopicPartition(topic, 0)
    end = bounds(log, topic)[1]
    for time_ms in (0, 1, 100, 101, 200, 250, 300, 301, 400, 401, 500, 501, 10**12):
        expected = next((row.offset for row in rows if row.timestamp_ms >= time_ms), end)
        assert log.offsets_for_time({where: time_ms}) == {where: expected}


def test_the_offset_for_a_time_in_an_empty_partition_is_its_end(log: Log, topic: str) -> None:
    assert log.offsets_for_time({TopicPartition(topic, 0): 5}) == {TopicPartition(topic, 0): 0}


@pytest.mark.long
def test_another_process_sees_what_was_appended(log: Log, log_config: LogConfig, topic: str) -> None:
    append(log, batch(topic, [b"before"]))
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=answer_with_values, args=(log_config, topic, theirs))
    child.start()
    ours.send("read")
    assert ours.recv() == [b"before"]
    for number in range(3):
        append(log, batch(topic, [b"%d" % number]))
        ours.send("read")
        assert ours.recv() == [b"before", *(b"%d" % done for done in range(number + 1))]
    ours.send(None)
    child.join(30)
    assert child.exitcode == 0


@pytest.mark.long
def test_several_processes_append_at_once(log: Log, log_config: LogConfig, topic: str) -> None:
    children = [SPAWN.Process(target=append_many, args=(log_config, topic, number, 20)) for number in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    found = values(log, topic)
    for number in range(3):
        own = [value for value in found if value and value.startswith(b"%d-" % number)]
        assert own == [b"%d-%d" % (number, index // 2) for index in range(40)]


def test_threads_of_a_process_append_at_once(log: Log, topic: str) -> None:
    def run(number: int) -> None:
        writer = log.writer()
        for index in range(20):
            writer.append([batch(topic, [b"%d-%d" % (number, index)])])
        writer.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = values(log, topic)
    for number in range(4):
        own = [value for value in found if value and value.startswith(b"%d-" % number)]
        assert own == [b"%d-%d" % (number, index) for index in range(20)]


def test_offsets_are_dense_arrays_that_belong_to_the_caller(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"a", b"b", b"c"]))
    reader = log.reader()
    first = next(iter(reader.fetch(TopicPartition(topic, 0), *bounds(log, topic))))
    first.offsets[:] = 99
    first.timestamps_ms[:] = 99
    first.values.clear()
    reader.close()
    assert np.array_equal([row.timestamp_ms for row in everything(log, topic)], [1_000, 2_000, 3_000])
    assert values(log, topic) == [b"a", b"b", b"c"]


def test_records_before_an_offset_can_be_deleted(log: Log, four: str) -> None:
    for number in range(3):
        append(log, batch(four, [b"%d" % number, b"x"], partitions=[0, 1]))
    first, second = TopicPartition(four, 0), TopicPartition(four, 1)
    log.delete_records({first: 2, second: 0})
    assert log.start_offsets([first, second]) == {first: 2, second: 0}
    assert values(log, four) == [b"2"]
    with pytest.raises(SourceRangeLostError):
        fetch(log, four, 1, 3)
    log.delete_records({first: 2})
    append(log, batch(four, [b"3"]))
    assert values(log, four) == [b"2", b"3"]


def test_records_of_a_topic_that_does_not_exist_cannot_be_deleted(log: Log) -> None:
    with pytest.raises(UnknownTopicError):
        log.delete_records({TopicPartition("no-such-topic", 0): 1})


def test_what_was_committed_has_no_unfinished_transaction_for_long(log: Log, topic: str) -> None:
    append(log, batch(topic, [b"1"]))
    deadline = time.monotonic() + 30
    while log.unfinished([TopicPartition(topic, 0)]):
        assert time.monotonic() < deadline
    assert values(log, topic) == [b"1"]
