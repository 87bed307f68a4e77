"""Re-key by a field, count and sum."""

from __future__ import annotations

import polars as pl

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder, count, sum_


def build(builder: StreamsBuilder, source: str, target: str) -> None:
    """Orders and amounts of each product."""
    totals = builder.stream(source, orders()).group_by(pl.col("product")).agg(n=count(), total=sum_("amount"))
    totals.to_stream().to(target, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
