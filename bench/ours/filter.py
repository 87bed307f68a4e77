"""Filter and projection with expressions, topic to topic."""

from __future__ import annotations

import polars as pl

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder


def build(builder: StreamsBuilder, source: str, target: str) -> None:
    """Half of the orders, four of their fields."""
    kept = builder.stream(source, orders()).filter(pl.col("amount") > 5000)
    projected = kept.map_values({name: pl.col(name) for name in ("order_id", "user", "product", "amount")})
    projected.to(target, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
