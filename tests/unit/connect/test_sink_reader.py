"""Ranges of sinks are read ahead; what was read ahead counts only if it is what is wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hayase.connect.columns import RecordColumns
from hayase.connect.contracts import SinkPartition
from hayase.connect.conversion import Conversion
from hayase.connect.converters.json_converter import JsonConverter
from hayase.connect.converters.simple_header_converter import SimpleHeaderConverter
from hayase.connect.converters.string_converter import StringConverter
from hayase.connect.errors import ErrorPolicy
from hayase.connect.exceptions import ConnectError
from hayase.connect.sink_reader import Reporter, SinkMetrics, SinkReader
from hayase.core.errors import UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, OutputBatch


def produce(log: Log, *values: str) -> SinkPartition:
    if "words" not in log.describe(["words"]):
        log.create_topic("words", 1, {})
    log.writer().append([OutputBatch("words", [None] * len(values), [v.encode() for v in values], [0] * len(values))])
    return SinkPartition("words", log.describe(["words"])["words"].topic_id, 0)


def reader_of(log: Log, where: SinkPartition, *, columns: bool = False) -> SinkReader:
    value = JsonConverter() if columns else StringConverter()
    value.configure({"schemas.enable": "false"}, is_key=False)
    conversion = Conversion(StringConverter(), value, SimpleHeaderConverter(), (), ErrorPolicy("sink", 0))
    prepare = (lambda found: found) if columns else None
    return SinkReader(log, [where], conversion, Reporter(conversion), SinkMetrics(), 2, prepare)


def values(reader: SinkReader, where: SinkPartition, start: int, *paused: TopicPartition) -> list[object]:
    return [record.value for each in reader.read({where: start}, paused) for record in each.records]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads that read ranges."""
    found: list[str] = []
    fetch = SinkReader._fetch_range

    def noted(self: SinkReader, *given: object, **more: bool) -> object:
        found.append(threading.current_thread().name)
        return fetch(self, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SinkReader, "_fetch_range", noted)
    return found


def test_the_next_range_is_read_while_the_last_one_is_written(log: Log, reads: list[str]) -> None:
    where = produce(log, *"abcde")
    reader = reader_of(log, where)
    assert [values(reader, where, start) for start in (0, 2, 4, 5)] == [["a", "b"], ["c", "d"], ["e"], []]
    reader.close()
    assert ["read-ahead" in name for name in reads] == [False, True, True]


def test_a_sink_that_goes_back_gets_the_records_from_there(log: Log) -> None:
    where = produce(log, *"abcde")
    reader = reader_of(log, where)
    assert [values(reader, where, start) for start in (0, 1, 0)] == [["a", "b"], ["b", "c"], ["a", "b"]]
    reader.close()


def test_a_partition_that_is_paused_gives_nothing_that_was_read_ahead(log: Log) -> None:
    where = produce(log, *"abcde")
    reader = reader_of(log, where)
    assert values(reader, where, 0) == ["a", "b"]
    assert values(reader, where, 2, TopicPartition("words", 0)) == []
    assert values(reader, where, 2) == ["c", "d"]
    reader.close()


def test_records_that_come_behind_the_end_are_read_when_they_are_there(log: Log, reads: list[str]) -> None:
    where = produce(log, *"ab")
    reader = reader_of(log, where)
    assert values(reader, where, 0) == ["a", "b"]
    produce(log, *"cd")
    assert values(reader, where, 2) == ["c", "d"]
    reader.close()
    assert not any("read-ahead" in name for name in reads)


def test_an_error_of_reading_ahead_is_raised_when_its_range_is_wanted(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = produce(log, *"abcd")
    reader = reader_of(log, where)
    check = SinkReader._check_topics

    def gone(self: SinkReader) -> None:
        if "read-ahead" in threading.current_thread().name:
            raise UnknownTopicError("UNKNOWN_TOPIC", "gone", topic="words")
        check(self)

    monkeypatch.setattr(SinkReader, "_check_topics", gone)
    assert values(reader, where, 0) == ["a", "b"]
    with pytest.raises(UnknownTopicError):
        reader.read({where: 2})
    reader.close()


def test_records_of_columns_are_made_when_somebody_looks_at_one(log: Log) -> None:
    where = produce(log, '{"a":1}', '{"a":2}')
    reader = reader_of(log, where, columns=True)
    (found,) = reader.read({where: 0})
    assert found.columns is not None
    assert found.columns.value is not None
    assert found.columns.value.column("a") == [1, 2]
    assert (len(found.records), found.records[1].value, found.records[1].kafka_offset) == (2, {"a": 2}, 1)
    reader.close()


def test_the_next_range_is_converted_to_columns_while_the_last_one_is_written_by_one_thread_at_a_time(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = produce(log, *(f'{{"a":{number}}}' for number in range(5)))
    reader = reader_of(log, where, columns=True)
    threads: list[str] = []
    converting: list[str] = []
    together: list[list[str]] = []

    def noting(convert: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: JsonConverter, *given: object) -> object:
            name = threading.current_thread().name
            converting.append(name)
            time.sleep(0.005)
            together.extend([list(converting)] if len(converting) > 1 else [])
            converting.remove(name)
            return convert(self, *given)

        return noted

    columns = JsonConverter.to_connect_columns

    def to_columns(self: JsonConverter, topic: str, data: Sequence[bytes | None]) -> object:
        threads.append(threading.current_thread().name)
        return columns(self, topic, data)

    monkeypatch.setattr(JsonConverter, "to_connect_columns", noting(to_columns))
    monkeypatch.setattr(JsonConverter, "to_connect_data", noting(JsonConverter.to_connect_data))
    for start in (0, 2, 4):
        (found,) = reader.read({where: start})
        assert found.records[0].value == {"a": start}  # by itself, while the next range is made to columns
    reader.close()
    assert (["read-ahead" in name for name in threads], together) == ([False, True, True], [])


def test_what_a_task_prepares_of_columns_comes_with_their_range(log: Log) -> None:
    where = produce(log, '{"a":1}', '{"a":2}', '{"a":3}', "no JSON")
    conversion = reader_of(log, where, columns=True)._conversion
    prepared_by: list[str] = []

    def prepare(columns: RecordColumns) -> list[object]:
        prepared_by.append(threading.current_thread().name)
        assert columns.value is not None
        return columns.value.column("a")

    reader = SinkReader(log, [where], conversion, Reporter(conversion), SinkMetrics(), 2, prepare)
    (first,) = reader.read({where: 0})
    with pytest.raises(ConnectError):  # record by record, where the error is said
        reader.read({where: 2})
    reader.close()
    assert (first.prepared, prepared_by) == ([1, 2], [threading.current_thread().name])


def test_what_is_read_ahead_is_not_written_and_counts_as_lag(log: Log, reads: list[str]) -> None:
    where = produce(log, *"abcde")
    conversion = Conversion(StringConverter(), StringConverter(), SimpleHeaderConverter(), (), ErrorPolicy("sink", 0))
    metrics = SinkMetrics()
    reader = SinkReader(log, [where], conversion, Reporter(conversion), metrics, 2)
    reader.read({where: 0})
    reader.read({where: 2})
    give_up_at_s = time.monotonic() + 10
    while len(reads) < 3:  # the range behind those is read ahead, too
        assert time.monotonic() < give_up_at_s
        time.sleep(0.001)
    assert metrics.lag == {TopicPartition("words", 0): 3}
    reader.close()
