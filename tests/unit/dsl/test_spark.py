"""Spark DataFrames and writers in a topology: names, topics, what is refused. No Spark is needed to build one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.dsl.orders import condition_of, configured

from hayase.dsl import Consumed, Materialized, Produced
from hayase.serde import Serdes
from hayase.topology.nodes import SinkNode, SourceNode
from hayase.topology.resolve import with_application_id

TEXT = Consumed.with_(Serdes.string(), Serdes.string())


def no_frame(spark):
    raise AssertionError("it is called when the application starts")


def no_write(frame, number):
    raise AssertionError("it is called when the application runs")


def both(builder):
    builder.from_spark("clicks", no_frame, TEXT).to_spark("archive", no_write, interval=timedelta(minutes=1))
    return builder.build()


def test_frames_are_joined_to_the_topology_by_internal_topics(builder):
    topology = both(builder)
    assert sorted(topology.internal_topics) == ["archive-to-spark", "clicks-from-spark"]
    source, sink = topology.nodes
    assert isinstance(source, SourceNode) and source.topics == ("clicks-from-spark",)
    assert isinstance(sink, SinkNode) and sink.topic == "archive-to-spark"
    assert [(each.name, each.topic) for each in topology.spark_sources] == [("clicks", "clicks-from-spark")]
    (archive,) = topology.spark_sinks
    assert (archive.name, archive.topic, archive.interval_ms) == ("archive", "archive-to-spark", 60_000)


def test_in_the_log_their_topics_begin_with_the_application_id(builder):
    topology = with_application_id(both(builder), "shop")
    assert sorted(topology.internal_topics) == ["shop-archive-to-spark", "shop-clicks-from-spark"]
    assert topology.spark_sources[0].topic == "shop-clicks-from-spark"
    assert topology.spark_sinks[0].topic == "shop-archive-to-spark"


def test_describe_shows_their_topics(builder):
    text = with_application_id(both(builder), "shop").describe()
    assert "(topics: [clicks-from-spark])" in text
    assert "(topic: archive-to-spark)" in text


def test_a_source_and_a_sink_may_have_one_name(builder):
    builder.from_spark("clicks", no_frame).to_spark("clicks", no_write)
    assert sorted(builder.build().internal_topics) == ["clicks-from-spark", "clicks-to-spark"]


def test_a_name_is_given_once(builder):
    stream = builder.from_spark("clicks", no_frame)
    stream.to_spark("archive", no_write)
    assert condition_of(lambda: builder.from_spark("clicks", no_frame)) == "DUPLICATE_NAME"
    assert condition_of(lambda: stream.to_spark("archive", no_write)) == "DUPLICATE_NAME"


def test_a_frame_that_feeds_a_left_join_is_built_like_any_source(builder):
    users = builder.table("users", TEXT, Materialized.as_("users"))
    clicks = builder.from_spark("clicks", no_frame, TEXT)
    clicks.left_join(users, lambda click, user: f"{click}{user}").to("out")
    assert [node.topics for node in builder.build().nodes if isinstance(node, SourceNode)] == [
        ("users",),
        ("clicks-from-spark",),
    ]


def test_serdes_are_those_that_are_given_else_the_settings_else_bytes(builder):
    builder.from_spark("a", no_frame, Consumed.with_(value_serde=Serdes.json()))
    assert "JsonSerde" in repr(configured(builder, Serdes.long(), Serdes.string()).nodes[0].value_serde)
    assert "LongSerde" in repr(configured(builder, Serdes.long(), Serdes.string()).nodes[0].key_serde)


@pytest.mark.parametrize(
    ("wrong", "condition"),
    [
        (lambda b: b.from_spark("a b", no_frame), "INVALID_NAME"),
        (lambda b: b.from_spark("a", "no function"), "INVALID_FUNCTION"),
        (lambda b: b.from_spark("a", no_write), "INVALID_FUNCTION"),
        (lambda b: b.from_spark("a", no_frame, Produced.with_()), "INVALID_OPTION"),
        (lambda b: b.from_spark("a", no_frame, Consumed.with_(reset="latest")), "INVALID_OPTION"),
        (lambda b: b.from_spark("a", no_frame, partitions=0), "INVALID_PARTITIONS"),
        (lambda b: b.from_spark("a", no_frame, output_mode="complete"), "INVALID_OPTION"),
        (lambda b: b.stream("in").to_spark("a", no_frame), "INVALID_FUNCTION"),
        (lambda b: b.stream("in").to_spark("", no_write), "INVALID_NAME"),
        (lambda b: b.stream("in").to_spark("a", no_write, interval=5), "INVALID_DURATION"),
        (lambda b: b.stream("in").to_spark("a", no_write, max_records=0), "INVALID_OPTION"),
        (lambda b: b.stream("in").to_spark("a", no_write, Consumed.with_()), "INVALID_OPTION"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(builder, wrong, condition):
    assert condition_of(lambda: wrong(builder)) == condition
