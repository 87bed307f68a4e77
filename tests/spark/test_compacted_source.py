"""A compacted topic as the source of a table: epochs go over its gaps."""

from __future__ import annotations

import polars as pl
from tests.spark.place import Place

from hayase import Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from hayase.log.embedded.log import EmbeddedLog


def users() -> Topology:
    builder = StreamsBuilder()
    text, user = Serdes.string(), Serdes.json(schema={"n": pl.Int64})
    table = builder.table("users", Consumed.with_(text, user), Materialized.as_("users"))
    table.to_stream().to("out", Produced.with_(text, Serdes.json()))
    return builder.build()


def test_a_table_over_a_compacted_topic_has_the_last_value_of_each_key(place: Place) -> None:
    assert isinstance(place.log, EmbeddedLog)
    place.log.create_topic("users", 2, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    place.topic("out")
    place.put("users", [(f"k{number % 7}", {"n": number}, number) for number in range(100)])
    assert place.log.clean(1_000).superseded_records == 93
    first = place.run(users(), max_records_per_epoch=20)
    assert first.progress().consumed == 7
    assert place.last("out") == {f"k{number % 7}": {"n": number} for number in range(93, 100)}
    place.put("users", [(f"k{number % 7}", {"n": number}, number) for number in range(100, 130)])
    place.log.clean(2_000)
    place.run(users(), max_records_per_epoch=20)
    assert place.last("out") == {f"k{number % 7}": {"n": number} for number in range(123, 130)}
