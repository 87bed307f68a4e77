"""A mapper and an aggregate that are plain Python functions."""

from __future__ import annotations

import argparse

from bench.ours.application import orders, run
from hayase import Produced, Serdes, StreamsBuilder


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """Paid orders of each user and what they cost."""
    payments = builder.stream(given.input, orders()).map_values(
        lambda order: {"cents": order["amount"] * order["quantity"], "paid": order["status"] == "paid"}
    )
    revenue = payments.group_by_key().aggregate(
        lambda: {"paid": 0, "cents": 0},
        lambda user, payment, revenue: (
            {"paid": revenue["paid"] + 1, "cents": revenue["cents"] + payment["cents"]} if payment["paid"] else revenue
        ),
    )
    revenue.to_stream().to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
