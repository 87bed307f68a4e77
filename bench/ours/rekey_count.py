"""Re-key by a field, count and sum."""

from __future__ import annotations

import argparse

import polars as pl

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder, count, sum_


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Orders and amounts of each product."""
    totals = builder.stream(given.input, orders()).group_by(pl.col("product")).agg(n=count(), total=sum_("amount"))
    totals.to_stream().to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
