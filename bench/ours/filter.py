"""Filter and projection with expressions, topic to topic."""

from __future__ import annotations

import argparse

import polars as pl

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Half of the orders, four of their fields."""
    kept = builder.stream(given.input, orders()).filter(pl.col("amount") > 5000)
    projected = kept.map_values({name: pl.col(name) for name in ("order_id", "user", "product", "amount")})
    projected.to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
