"""Join a stream with itself by key within a minute, and keep some of the pairs: what SQL's WHERE behind a join does."""

from __future__ import annotations

import argparse

import polars as pl

from bench.ours.application import ORDER, orders, run
from bench.ours.stream_stream_join import MINUTE
from hayase import Produced, Serdes, StreamJoined, StreamsBuilder, left, right


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Each order with those of the same user that are a minute away at most; of these pairs paid with void ones."""
    every = builder.stream(given.input, orders())
    fields = {
        "order_id": left("order_id"),
        "void_id": right("order_id"),
        "amount": left("amount") - right("amount"),
        "status": left("status"),
        "other_status": right("status"),
    }
    serdes = StreamJoined.with_(Serdes.string(), Serdes.json(schema=ORDER), Serdes.json(schema=ORDER))
    pairs = every.join(every, fields, MINUTE, serdes)
    kept = pairs.filter((pl.col("status") == "paid") & (pl.col("other_status") == "void"))
    settled = kept.map_values({name: pl.col(name) for name in ("order_id", "void_id", "amount")})
    settled.to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
