"""Protobuf topics on Spark: the serdes travel to the workers, descriptors and classes with them."""

from __future__ import annotations

from typing import Any

import polars as pl
from google.protobuf.timestamp_pb2 import Timestamp
from tests.spark.place import Place, store_rows

from hayase import Consumed, Materialized, Produced, ProtobufSerde, Serdes, StreamsBuilder, Topology, sum_
from hayase.testing import SchemaRegistryServer

PURCHASE = 'syntax = "proto3"; package shop; message Purchase { string item = 1; int64 cents = 2; }'


def spending() -> Topology:
    builder = StreamsBuilder()
    purchases = builder.stream("in", Consumed.with_(Serdes.string(), ProtobufSerde(PURCHASE)))
    purchases.filter(pl.col("cents") > 100).to("out", Produced.with_(Serdes.string(), ProtobufSerde(PURCHASE)))
    purchases.group_by_key().agg(Materialized.as_("spent"), cents=sum_("cents"))
    times = purchases.map_values(lambda value: Timestamp(seconds=value["cents"]))
    times.to("times", Produced.with_(Serdes.string(), ProtobufSerde(Timestamp)))
    return builder.build()


def test_records_are_read_and_written_with_the_registry_of_the_settings(place: Place) -> None:
    with SchemaRegistryServer() as server:
        for topic in ("in", "out", "times"):
            place.topic(topic)
        serde = ProtobufSerde(PURCHASE, server.url).for_topic("in", "value", {})
        rows = [(f"k{number % 3}", {"item": "book", "cents": number}, number) for number in range(200)]
        damaged: list[tuple[str | None, Any, int]] = [("k0", serde.written_head() + b"\x0a\x09x", 0)]
        place.put("in", [*damaged, *((key, serde.serialize(value), at) for key, value, at in rows)])
        settings = {"schema.registry.url": server.url, "deserialization.exception.handler": "log_and_continue"}
        app = place.run(spending(), **settings)
        assert app.progress().dropped == 1
        assert sorted(serde.deserialize(row.value)["cents"] for row in place.rows("out")) == list(range(101, 200))
        assert store_rows(app, "spent") == {f"k{n}": {"cents": sum(range(n, 200, 3))} for n in range(3)}
        times = ProtobufSerde(Timestamp, server.url)
        assert sorted(times.deserialize(row.value).seconds for row in place.rows("times")) == list(range(200))
