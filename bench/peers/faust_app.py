"""Faust (faust-streaming): two workers, state in RocksDB."""

from __future__ import annotations

import argparse
from typing import Any

import faust
from faust.worker import Worker

from bench.peers.arguments import LARGE_AMOUNT, run_workers


class Order(faust.Record, serializer="json"):
    order_id: int
    user: str
    product: str
    region: str
    amount: int
    quantity: int
    status: str


class OrderLine(faust.Record, serializer="json", include_metadata=False):
    order_id: int
    user: str
    product: str
    amount: int


class Totals(faust.Record, serializer="json", include_metadata=False):
    n: int
    total: int


def work(given: argparse.Namespace, number: int) -> None:
    app = faust.App(
        given.application_id,
        broker=f"kafka://{given.bootstrap}",
        store="rocksdb://",
        datadir=f"{given.state_dir}/{number}",
        topic_partitions=2,
        topic_disable_leader=True,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        processing_guarantee="at_least_once",
        producer_compression_type="lz4",
        web_enabled=False,
    )
    source = app.topic(given.input, key_type=str, value_type=Order)
    if given.application == "filter":
        _filter(app, source, app.topic(given.output, key_type=str, value_type=OrderLine))
    else:
        _count(app, source, app.topic(given.output, key_type=str, value_type=Totals))
    Worker(app, loglevel="WARNING").execute_from_commandline()


def _filter(app: Any, source: Any, target: Any) -> None:
    @app.agent(source)
    async def keep_large(stream: Any) -> None:
        async for key, order in stream.items():
            if order.amount > LARGE_AMOUNT:
                line = OrderLine(order.order_id, order.user, order.product, order.amount)
                await target.send(key=key, value=line)


def _count(app: Any, source: Any, target: Any) -> None:
    table = app.Table("totals", key_type=str, value_type=Totals, default=lambda: Totals(0, 0))

    @app.agent(source)
    async def count(stream: Any) -> None:
        async for key, order in stream.items():
            before = table[key]
            table[key] = totals = Totals(before.n + 1, before.total + order.amount)
            await target.send(key=key, value=totals)


if __name__ == "__main__":
    run_workers(work)
