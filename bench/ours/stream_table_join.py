"""Join a stream with a table by key."""

from __future__ import annotations

import argparse

from bench.ours.application import USER, orders, run
from hayase import Consumed, Produced, Serdes, StreamsBuilder, left, right


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Each order with what the table says about its user."""
    users = builder.table(given.table, Consumed.with_(Serdes.string(), Serdes.json(schema=USER)))
    fields = {"order_id": left("order_id"), "amount": left("amount"), "city": right("city"), "tier": right("tier")}
    enriched = builder.stream(given.input, orders()).join(users, fields)
    enriched.to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
