"""A table grouped by a field that changes: count and sum."""

from __future__ import annotations

import argparse

import polars as pl

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder, count, sum_


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """How many users ordered each product last, and for how much; products that no user ordered last are left out."""
    last_orders = builder.table(given.input, orders())
    totals = last_orders.group_by("product").agg(n=count(), total=sum_("amount")).filter(pl.col("n") > 0)
    totals.to_stream().to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
