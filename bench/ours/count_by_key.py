"""Count and sum per key."""

from __future__ import annotations

import argparse

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder, count, sum_


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Orders and amounts of each user, who is the key."""
    totals = builder.stream(given.input, orders()).group_by_key().agg(n=count(), total=sum_("amount"))
    totals.to_stream().to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
