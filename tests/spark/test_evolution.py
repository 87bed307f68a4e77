"""Another version of the program starts on the checkpoint of an older one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.spark.place import Place

from hayase import AutoOffsetReset, Consumed, JsonSerde, Materialized, Serdes, StreamsBuilder, Topology
from hayase.core.errors import CheckpointError, TopologyError


@dataclass
class First:
    item: str
    cents: int


@dataclass
class Second:
    item: str
    cents: float
    coupon: str | None = None


@dataclass
class Third:
    item: str
    coupon: str


def orders(topic: str, kind: type, reset: AutoOffsetReset | None = None) -> Topology:
    builder = StreamsBuilder()
    consumed = Consumed.with_(Serdes.string(), JsonSerde(kind), reset=reset)
    builder.table(topic, consumed, Materialized.as_("orders"))
    return builder.build()


def test_values_of_an_older_version_are_read_on_or_the_new_version_is_refused_at_the_start(place: Place) -> None:
    topic = place.topic("orders", 1)
    place.put(topic, [("a", {"item": "tea", "cents": 5}, 1)])
    with pytest.raises(TopologyError, match="no position in topic"):
        place.run(orders(topic, First, AutoOffsetReset.none()))
    place.run(orders(topic, First, AutoOffsetReset.earliest()))
    place.put(topic, [("b", {"item": "pen", "cents": 0.5, "coupon": "x"}, 2)])
    second = place.run(orders(topic, Second, AutoOffsetReset.none()))
    found = {row.key: row.value for row in second.store("orders").all()}
    assert found == {"a": Second("tea", 5.0), "b": Second("pen", 0.5, "x")}
    with pytest.raises(CheckpointError, match="field 'coupon' is new and has no default"):
        place.run(orders(topic, Third))
