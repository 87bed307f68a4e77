"""Quix Streams: two processes, state in RocksDB."""

from __future__ import annotations

import argparse
from typing import Any

from quixstreams import Application, State

from bench.peers.arguments import LARGE_AMOUNT, LINE, run_workers


def work(given: argparse.Namespace, number: int) -> None:
    app = Application(
        broker_address=given.bootstrap,
        consumer_group=given.application_id,
        auto_offset_reset="earliest",
        processing_guarantee="at-least-once",
        commit_interval=1.0,
        state_dir=f"{given.state_dir}/{number}",
        producer_extra_config={"compression.type": "lz4"},
        loglevel="WARNING",
    )
    orders = app.dataframe(app.topic(given.input, key_deserializer="string", value_deserializer="json"))
    target = app.topic(given.output, key_serializer="string", value_serializer="json")
    if given.application == "filter":
        orders = orders[orders["amount"] > LARGE_AMOUNT][list(LINE)]
    else:
        orders = orders.apply(_totals, stateful=True)
    orders.to_topic(target)
    app.run()


def _totals(order: dict[str, Any], state: State) -> dict[str, int]:
    totals = state.get("totals") or {"n": 0, "total": 0}
    totals = {"n": totals["n"] + 1, "total": totals["total"] + order["amount"]}
    state.set("totals", totals)
    return totals


if __name__ == "__main__":
    run_workers(work)
