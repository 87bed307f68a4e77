"""Spark DataFrames and writers in the test driver: they are topics there."""

from __future__ import annotations

from typing import Any

import pytest

from hayase import Consumed, Produced, Serdes, StreamsBuilder
from hayase.core.errors import UnknownTopicError
from hayase.testing import TopologyTestDriver

TEXT = Serdes.string()


def no_frame(spark: Any) -> Any:
    raise AssertionError("the driver has no Spark")


def no_write(frame: Any, number: int) -> None:
    raise AssertionError("the driver has no Spark")


def test_a_frame_is_fed_and_a_writer_is_read_by_its_name() -> None:
    builder = StreamsBuilder()
    clicks = builder.from_spark("clicks", no_frame, Consumed.with_(TEXT, TEXT))
    clicks.map_values(str.upper).to_spark("archive", no_write, Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        source, sink = (
            driver.create_input_topic("clicks", TEXT, TEXT),
            driver.create_output_topic("archive", TEXT, TEXT),
        )
        source.pipe_input("ada", "home", 7)
        record = sink.read_record()
        assert (record.key, record.value, record.timestamp_ms) == ("ada", "HOME", 7)
        assert sink.is_empty()


def test_where_a_topic_is_called_alike_the_internal_name_is_used() -> None:
    builder = StreamsBuilder()
    builder.from_spark("clicks", no_frame, Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    builder.stream("clicks", Consumed.with_(TEXT, TEXT)).to_spark("out", no_write, Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("clicks", TEXT, TEXT).pipe_input("a", "from the topic")
        driver.create_input_topic("test-clicks-from-spark", TEXT, TEXT).pipe_input("b", "from the frame")
        assert driver.create_output_topic("out", TEXT, TEXT).read_values_to_list() == ["from the frame"]
        assert driver.create_output_topic("test-out-to-spark", TEXT, TEXT).read_values_to_list() == ["from the topic"]


def test_an_unknown_input_is_refused_with_the_names_that_there_are() -> None:
    builder = StreamsBuilder()
    builder.from_spark("clicks", no_frame).to("out")
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(UnknownTopicError) as caught:
        driver.create_input_topic("other", TEXT, TEXT)
    assert "'clicks'" in caught.value.message
