"""Join two streams by key within a minute."""

from __future__ import annotations

import argparse
from datetime import timedelta

import polars as pl

from bench.ours.application import ORDER, orders, run
from hayase import JoinWindows, Produced, Serdes, StreamJoined, StreamsBuilder, left, right

MINUTE = JoinWindows.of_time_difference_and_grace(timedelta(minutes=1), timedelta(minutes=1))


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Each paid order with the void ones of the same user that are a minute away at most."""
    every = builder.stream(given.input, orders())
    paid, void = (every.filter(pl.col("status") == status) for status in ("paid", "void"))
    fields = {
        "order_id": left("order_id"),
        "void_id": right("order_id"),
        "amount": left("amount") - right("amount"),
    }
    serdes = StreamJoined.with_(Serdes.string(), Serdes.json(schema=ORDER), Serdes.json(schema=ORDER))
    paid.join(void, fields, MINUTE, serdes).to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
