"""Versioned tables on Spark."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.spark.place import Place
from tests.spark.topologies import TEXT

from hayase import Consumed, Joined, Materialized, Produced, Stores, StreamsBuilder, Topology

pytestmark = pytest.mark.timeout(600)

READ, WRITTEN = Consumed.with_(TEXT, TEXT), Produced.with_(TEXT, TEXT)
KEYS = "abcdefgh"


def priced() -> Topology:
    """Sales with the price that was valid then, for which they wait 50 ms."""
    builder = StreamsBuilder()
    kept = Materialized.as_(Stores.persistent_versioned_key_value_store("prices", timedelta(seconds=1)))
    prices = builder.table("prices", READ, kept)
    grace = Joined.with_(TEXT, TEXT, grace_period=timedelta(milliseconds=50))
    builder.stream("sales", READ).join(prices, lambda sale, price: f"{sale}@{price}", grace).to("out", WRITTEN)
    return builder.build()


def test_a_record_waits_in_one_run_and_is_joined_in_the_next_with_the_row_that_came_late(place: Place) -> None:
    for topic in ("prices", "sales", "out"):
        place.topic(topic)
    place.put("prices", [(key, b"one", 100) for key in KEYS])
    place.put("sales", [(key, b"sale", 150) for key in KEYS])
    place.run(priced())
    assert place.rows("out") == []
    place.put("prices", [(key, b"three", 300) for key in KEYS] + [(key, b"two", 140) for key in KEYS])
    place.put("sales", [(key, b"later", 320) for key in KEYS])
    app = place.run(priced())
    assert {(row.key, row.value, row.timestamp_ms) for row in place.rows("out")} == {
        (key, b"sale@two", 150) for key in KEYS
    }
    prices = app.store("prices")
    assert [prices.get("a", time).value for time in (99, 100, 139, 140, 299, 300)] == [
        None, "one", "one", "two", "two", "three",
    ]  # fmt: skip
