"""Times of the test driver: milliseconds, or aware datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.core.errors import StateError
from hayase.core.metrics import DROPPED_RECORDS
from hayase.processor.timestamps import ConsumedRecord, callable_timestamp, field_timestamp
from hayase.testing import TopologyTestDriver
from hayase.testing.topics import RawRecord

TEXT = Serdes.string()


def test_the_times_of_records_and_of_a_topic_may_be_aware_datetimes() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    start = datetime(2026, 1, 2, tzinfo=UTC)
    with TopologyTestDriver(builder.build(), initial_wall_clock_ms=start) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT, start, timedelta(seconds=1))
        source.pipe_value_list(["a", "b"])
        source.pipe_input("k", "c", start - timedelta(days=1))
        times = [record.timestamp_ms for record in driver.create_output_topic("out", TEXT, TEXT).read_records_to_list()]
        begin_ms = round(start.timestamp() * 1000)
        assert times == [begin_ms, begin_ms + 1_000, begin_ms - 86_400_000]
        with pytest.raises(StateError, match="has no time zone"):
            source.pipe_input("k", "d", datetime(2026, 1, 2))  # noqa: DTZ001 - that is what is wrong


@pytest.mark.parametrize("form", ["rows", "auto"])
@pytest.mark.parametrize("path", ["ts", "ts.inner", "value.inner"])
def test_a_field_that_values_of_this_kind_cannot_have_is_an_invalid_time_in_both_forms(form: str, path: str) -> None:
    builder = StreamsBuilder()
    by_field = Consumed.with_(TEXT, TEXT, field_timestamp(path, on_invalid="skip"))
    builder.stream("in", by_field).filter(pl.col("value") != "z").to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        assert driver.create_output_topic("out", TEXT, TEXT).is_empty()
        assert driver.metrics.total(DROPPED_RECORDS) == 1


def test_an_extractor_is_called_once_for_each_record_although_the_driver_looks_ahead() -> None:
    called = []

    def extract(record: ConsumedRecord, partition_time_ms: int) -> int:
        called.append((record.topic, record.offset))
        return int(record.value)

    builder = StreamsBuilder()
    by_function = Consumed.with_(TEXT, TEXT, callable_timestamp(extract))
    builder.stream("a", by_function).merge(builder.stream("b", by_function)).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_batch(RawRecord(topic, b"k", value, 0) for topic, value in (("a", b"5"), ("a", b"7"), ("b", b"6")))
        assert driver.create_output_topic("out", TEXT, TEXT).read_values_to_list() == ["5", "6", "7"]
    assert sorted(called) == [("a", 0), ("a", 1), ("b", 0)]
