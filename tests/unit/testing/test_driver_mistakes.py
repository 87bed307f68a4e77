"""Mistakes of a first program: each is an error that says what was given and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from hayase import Consumed, Produced, Serdes, StreamsApp, StreamsBuilder, field_timestamp
from hayase.core.errors import ProcessingError, SerializationError, TopologyError, UnknownTopicError
from hayase.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
HERE = "test_driver_mistakes.py:"


def copied() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", Produced.with_(TEXT, JSON))
    return builder


def failing(build: Callable[[Any], Any]) -> ProcessingError:
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed.with_(TEXT, JSON))).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as raised:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", {"item": "pen", "cents": 5})
    return raised.value


def typed_dict(key: str, value: dict[str, Any]) -> tuple[str, str]:
    return {"item": value["item"], "cents": value["cents"]}  # type: ignore[return-value] - the mistake


@pytest.mark.parametrize("function", [lambda key, value: dict(value), typed_dict])
def test_map_refuses_a_dict_of_two_fields_and_names_the_function(function: Callable[..., Any]) -> None:
    said = str(failing(lambda stream: stream.map(function)))
    assert "it must give a pair, as in `return key, value`" in said and HERE in said


@pytest.mark.parametrize("name", ["flat_map", "flat_map_values"])
def test_functions_that_give_no_list_are_named(name: str) -> None:
    def nothing(key: object, value: object) -> Any:
        return None

    said = str(failing(lambda stream: getattr(stream, name)(nothing)))
    assert "gave None; it must give a list" in said and HERE in said and "in nothing" in said


def test_flat_map_refuses_items_that_are_no_pairs() -> None:
    said = str(failing(lambda stream: stream.flat_map(lambda key, value: ["ab"])))
    assert "gave 'ab'; it must give a pair" in said


def test_the_driver_and_the_application_take_a_builder() -> None:
    with TopologyTestDriver(copied()) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1)
        assert driver.create_output_topic("out", TEXT, JSON).read_value() == 1
    app = StreamsApp(copied(), {"application.id": "copy"})
    assert app.topology.nodes


@pytest.mark.parametrize("start", [TopologyTestDriver, lambda given: StreamsApp(given, {"application.id": "copy"})])
def test_what_is_no_topology_is_refused_by_name(start: Callable[[Any], object]) -> None:
    stream = StreamsBuilder().stream("in")
    with pytest.raises(TopologyError, match="give a Topology or a StreamsBuilder"):
        start(stream)


def test_an_output_topic_that_nothing_is_written_to_is_refused() -> None:
    with TopologyTestDriver(copied()) as driver, pytest.raises(UnknownTopicError) as raised:
        driver.create_output_topic("outt", TEXT, JSON)
    assert "it writes to ['out']. Is it 'out'?" in str(raised.value)


def test_with_a_sink_that_chooses_topics_each_may_be_read() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to(lambda key, value, context: value, Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder) as driver:
        assert driver.create_output_topic("any", TEXT, TEXT).is_empty()


ORDER = Serdes.json(schema={"item": pl.String, "sent": pl.Struct({"at": pl.Int64})})


@pytest.mark.parametrize("path", ["time", "sent.time", "item.at"])
@pytest.mark.parametrize("read", ["stream", "table", "global_table"])
def test_event_time_of_a_field_that_the_schema_does_not_have_is_refused(read: str, path: str) -> None:
    with pytest.raises(TopologyError, match=f"there is no field '{path.rpartition('.')[2]}'") as raised:
        getattr(StreamsBuilder(), read)("in", Consumed.with_(TEXT, ORDER, field_timestamp(path)))
    assert HERE in str(raised.value)


def test_event_time_of_a_field_that_is_there_is_taken() -> None:
    StreamsBuilder().stream("in", Consumed.with_(TEXT, ORDER, field_timestamp("sent.at")))


def test_without_a_schema_the_error_says_that_the_value_has_no_such_field() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON, field_timestamp("time"))).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder) as driver, pytest.raises(SerializationError) as raised:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", {"at": 5})
    assert "field_timestamp('time'): the value has no such field, it has ['at']" in str(raised.value)
