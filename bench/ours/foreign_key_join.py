"""Join two tables by a foreign key."""

from __future__ import annotations

import argparse

from bench.ours.application import PRODUCT, orders, run
from hayase import Consumed, Produced, Serdes, StreamsBuilder, left, right


def build(builder: StreamsBuilder, given: argparse.Namespace) -> None:
    """The last order of each user with the price of its product; a product that changes changes all its orders."""
    products = builder.table(given.table, Consumed.with_(Serdes.string(), Serdes.json(schema=PRODUCT)))
    fields = {"order_id": left("order_id"), "amount": left("amount"), "price": right("price")}
    priced = builder.table(given.input, orders()).join(products, "product", fields)
    priced.to_stream().to(given.output, Produced.with_(Serdes.string(), Serdes.json()))


if __name__ == "__main__":
    run(build)
