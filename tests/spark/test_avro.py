"""Avro topics on Spark: the serdes travel to the workers, which ask the registry themselves."""

from __future__ import annotations

import polars as pl
from tests.spark.place import Place, error_of, store_rows

from hayase import (
    AvroSerde,
    Consumed,
    Materialized,
    Produced,
    SchemaRegistryError,
    Serdes,
    StreamsBuilder,
    Topology,
    sum_,
)
from hayase.testing import SchemaRegistryServer

PURCHASE = {
    "type": "record",
    "name": "Purchase",
    "fields": [{"name": "item", "type": "string"}, {"name": "cents", "type": "long"}],
}


def spending() -> Topology:
    builder = StreamsBuilder()
    purchases = builder.stream("in", Consumed.with_(Serdes.string(), AvroSerde(PURCHASE)))
    purchases.filter(pl.col("cents") > 100).to("out", Produced.with_(Serdes.string(), AvroSerde(PURCHASE)))
    purchases.group_by_key().agg(Materialized.as_("spent"), cents=sum_("cents"))
    return builder.build()


def test_records_are_read_and_written_with_the_registry_of_the_settings(place: Place) -> None:
    with SchemaRegistryServer() as server:
        place.topic("in"), place.topic("out")
        serde = AvroSerde(PURCHASE, server.url).for_topic("in", "value", {})
        rows = [(f"k{number % 3}", {"item": "book", "cents": number}, number) for number in range(200)]
        place.put("in", [(key, serde.serialize(value), at) for key, value, at in rows])
        app = place.run(spending(), **{"schema.registry.url": server.url})
        found = [serde.deserialize(row.value)["cents"] for row in place.rows("out")]
        assert sorted(found) == list(range(101, 200))
        assert store_rows(app, "spent") == {f"k{n}": {"cents": sum(range(n, 200, 3))} for n in range(3)}
        assert sum(request.startswith("GET /schemas/ids") for request in server.requests) <= 4  # once per process


def test_a_registry_that_is_away_stops_the_application_and_is_named(place: Place) -> None:
    place.topic("in"), place.topic("out")
    with SchemaRegistryServer() as server:
        serde = AvroSerde(PURCHASE, server.url).for_topic("in", "value", {})
        place.put("in", [("a", serde.serialize({"item": "book", "cents": 1}), 0)])
        url = server.url
    settings = {"schema.registry.url": url, "schema.registry.max.retries": 0}
    error = error_of(place.app(spending(), **settings).run_to_end)
    assert isinstance(error, SchemaRegistryError)
    assert (error.condition, url in error.message) == ("SCHEMA_REGISTRY_UNREACHABLE", True)
    assert place.rows("out") == []
