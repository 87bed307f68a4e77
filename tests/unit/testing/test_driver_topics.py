"""The test driver: what goes in, what comes out, clocks, stores."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from hayase import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Record,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    left,
    right,
    sum_,
    wall_clock_timestamp,
)
from hayase.core.errors import ProcessingError, UnknownStoreError, UnknownTopicError
from hayase.testing import TestRecord, TopologyTestDriver

TEXT, JSON, LONG = Serdes.string(), Serdes.json(), Serdes.long()
READ = Consumed.with_(TEXT, Serdes.json(schema={"n": pl.Int64, "s": pl.String}))
WRITE = Produced.with_(TEXT, JSON)


def pass_through() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def test_records_keep_key_value_time_and_headers_on_their_way() -> None:
    with TopologyTestDriver(pass_through()) as driver:
        source, sink = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, TEXT)
        source.pipe_input("k", "v", 7, (("h", b"1"), ("h", None)))
        source.pipe_input(None, None, 8)
        assert sink.read_records_to_list() == [
            TestRecord("k", "v", 7, (("h", b"1"), ("h", None))),
            TestRecord(None, None, 8),
        ]


def test_a_topic_without_timestamps_advances_by_itself_and_when_told() -> None:
    with TopologyTestDriver(pass_through()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT, 100, timedelta(milliseconds=10))
        sink = driver.create_output_topic("out", TEXT, TEXT)
        source.pipe_key_value_list([("a", "1"), ("b", "2")])
        source.advance_time(timedelta(seconds=1))
        source.pipe_value_list(["3"])
        source.pipe_record_list([TestRecord("c", "4", 5), TestRecord("d", "5")])
        assert [record.timestamp_ms for record in sink.read_records_to_list()] == [100, 110, 1120, 5, 1130]


def test_output_is_read_once_in_order_and_reading_past_the_end_is_an_error() -> None:
    with TopologyTestDriver(pass_through()) as driver:
        source, sink = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, TEXT)
        source.pipe_key_value_list([("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")])
        assert sink.queue_size() == 4
        assert sink.read_key_value() == ("a", "1")
        assert sink.read_value() == "2"
        assert sink.read_key_values_to_map() == {"a": "3", "c": "4"}
        assert sink.is_empty()
        with pytest.raises(ProcessingError) as refused:
            sink.read_record()
        assert refused.value.condition == "NO_MORE_RECORDS"


def test_a_topic_that_is_not_read_and_a_store_that_is_not_there_are_refused_by_name() -> None:
    with TopologyTestDriver(pass_through()) as driver:
        with pytest.raises(UnknownTopicError, match="it reads \\['in'\\]"):
            driver.create_input_topic("other", TEXT, TEXT)
        with pytest.raises(UnknownStoreError, match="no store 'nothing'"):
            driver.store("nothing")


def test_the_clock_moves_only_when_told() -> None:
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(wall_clock_timestamp())
    builder.stream("in", consumed).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), initial_wall_clock_ms=50) as driver:
        source, sink = driver.create_input_topic("in", TEXT, TEXT), driver.create_output_topic("out", TEXT, TEXT)
        source.pipe_input("a", "1", 7)
        driver.advance_wall_clock_time(timedelta(seconds=2))
        source.pipe_input("a", "2", 7)
        assert [record.timestamp_ms for record in sink.read_records_to_list()] == [50, 2050]


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("cache_bytes", [0, 10_000_000])
def test_every_record_is_flushed_so_a_cache_hides_no_update(form: str, cache_bytes: int) -> None:
    builder = StreamsBuilder()
    table = builder.stream("in", READ).group_by_key().agg(Materialized.as_("t"), n=count(), total=sum_("n"))
    table.to_stream().to("out", WRITE)
    config = {"processing.form": form, "statestore.cache.max.bytes": cache_bytes}
    with TopologyTestDriver(builder.build(), config) as driver:
        source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("out", TEXT, JSON)
        for n in (1, 2, 3):
            source.pipe_input("a", {"n": n}, n)
        assert sink.read_values_to_list() == [{"n": 1, "total": 1}, {"n": 2, "total": 3}, {"n": 3, "total": 6}]
        assert driver.store("t").get("a").value == {"n": 3, "total": 6}
        assert driver.store("t").get("a").timestamp_ms == 3
        assert driver.store("t").get("b") is None


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_records_go_through_all_sub_topologies_before_the_call_returns(form: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", READ)
    first = stream.group_by(pl.col("s"), Grouped.with_(TEXT)).agg(Materialized.as_("first"), n=count())
    again = first.to_stream().group_by(pl.col("n").cast(pl.String), Grouped.with_(TEXT))
    again.agg(Materialized.as_("second"), times=count()).to_stream().to("out", WRITE)
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("out", TEXT, JSON)
        for s in ("x", "y", "x"):
            source.pipe_input("k", {"n": 1, "s": s})
        assert sink.read_key_values_to_list() == [("1", {"times": 1}), ("1", {"times": 2}), ("2", {"times": 1})]
        assert {key: value.value["n"] for key, value in driver.store("first").all()} == {"x": 2, "y": 1}


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_topic_that_is_written_and_read_comes_back_in(form: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).filter(pl.col("n") > 0).to("middle", WRITE)
    builder.stream("middle", READ).filter(pl.col("n") > 1).to("out", WRITE)
    with TopologyTestDriver(builder.build(), {"processing.form": form}) as driver:
        source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("out", TEXT, JSON)
        for n in (0, 1, 2):
            source.pipe_input("k", {"n": n, "s": None})
        assert [value["n"] for value in sink.read_values_to_list()] == [2]
        assert driver.create_output_topic("middle", TEXT, JSON).queue_size() == 2
        assert driver.produced_topic_names() == ["middle"]


def test_a_global_table_is_up_to_date_for_the_next_record() -> None:
    builder = StreamsBuilder()
    names = builder.global_table("names", Consumed.with_(TEXT, Serdes.json(schema={"name": pl.String})))
    joined = builder.stream("in", READ).left_join(names, pl.col("s"), {"n": left("n"), "name": right("name")})
    joined.to("out", WRITE)
    with TopologyTestDriver(builder.build()) as driver:
        source, table = driver.create_input_topic("in", TEXT, JSON), driver.create_input_topic("names", TEXT, JSON)
        sink = driver.create_output_topic("out", TEXT, JSON)
        for change in (None, {"name": "x"}, {"name": "y"}):
            if change is not None:
                table.pipe_input("p", change)
            source.pipe_input("k", {"n": 1, "s": "p"})
        assert [value["name"] for value in sink.read_values_to_list()] == [None, "x", "y"]


def test_window_stores_are_read_by_key_and_time() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(timedelta(milliseconds=10))
    kept = Materialized.as_("w").with_retention(timedelta(seconds=1))
    builder.stream("in", READ).group_by_key().windowed_by(windows).agg(kept, n=count())
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        for at in (1, 9, 10, 25):
            source.pipe_input("a", {"n": 1, "s": ""}, at)
        store = driver.store("w")
        assert [(start, found.value["n"]) for start, found in store.fetch("a", 0, 20)] == [(0, 2), (10, 1), (20, 1)]


def test_what_user_code_sees_is_a_record_at_a_time() -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).peek(lambda key, value: seen.append((key, value)))
    stream.to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        source.pipe_input("a", "1")
        assert seen == [("a", "1")]
        source.pipe_input("b", "2")
    assert seen == [("a", "1"), ("b", "2")]
    assert Record("a", "1", 0).headers == ()


def test_a_repartition_goes_through_a_topic_that_can_be_looked_at() -> None:
    builder = StreamsBuilder()
    keyed = builder.stream("in", READ).select_key(pl.col("s")).repartition(Repartitioned.as_("by-s"))
    keyed.group_by_key().count().to_stream().to("out", Produced.with_(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        source, sink = driver.create_input_topic("in", TEXT, JSON), driver.create_output_topic("out", TEXT, LONG)
        for text in ("x", "y", None, "x"):
            source.pipe_input("k", {"n": 1, "s": text})
        assert sink.read_key_values_to_list() == [("x", 1), ("y", 1), ("x", 2)]
        between = driver.create_output_topic("test-by-s-repartition", TEXT, JSON)
        assert [record.key for record in between.read_records_to_list()] == ["x", "y", "x"]


def test_a_pattern_reads_whatever_topic_is_made_that_matches() -> None:
    builder = StreamsBuilder()
    counts = builder.stream(re.compile("in-.*"), READ).group_by_key().count(Materialized.as_("counts"))
    counts.to_stream().to("out", Produced.with_(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        assert driver.store("counts").get("k") is None
        for name in ("in-b", "in-a", "in-b"):
            driver.create_input_topic(name, TEXT, JSON).pipe_input("k", {"n": 1, "s": name})
        assert driver.store("counts").get("k").value == 3
        with pytest.raises(UnknownTopicError):
            driver.create_input_topic("other", TEXT, JSON)


def test_a_sink_that_chooses_its_topic_writes_each() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).to(lambda key, value, context: f"{context.topic}-{value['s']}", WRITE)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, JSON)
        for text in ("x", "y", "x"):
            source.pipe_input("k", {"n": 1, "s": text})
        assert driver.produced_topic_names() == ["in-x", "in-y"]
        assert driver.create_output_topic("in-x", TEXT, JSON).queue_size() == 2
