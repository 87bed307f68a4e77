"""What the scenarios share: arguments, settings, and running until SIGTERM."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from hayase import Consumed, Produced, Serdes, StreamsApp, StreamsBuilder, TimeWindows, Topology, count, sum_

ORDER = {
    "order_id": pl.Int64,
    "user": pl.String,
    "product": pl.String,
    "region": pl.String,
    "amount": pl.Int64,
    "quantity": pl.Int64,
    "status": pl.String,
}
USER = {"user": pl.String, "name": pl.String, "city": pl.String, "tier": pl.Int64}
PRODUCT = {"product": pl.String, "name": pl.String, "price": pl.Int64}
MINUTES = TimeWindows.of_size_and_grace(timedelta(minutes=1), grace=timedelta(minutes=1))

Build = Callable[[StreamsBuilder, argparse.Namespace], None]
"""Builds a topology for a command line with `input` and `output`, and `table` where there is one."""


def orders() -> Consumed:
    """Serdes of the input topic."""
    return Consumed.with_(Serdes.string(), Serdes.json(schema=ORDER))


def count_windows(builder: StreamsBuilder, given: argparse.Namespace, windows: TimeWindows) -> None:
    """Orders and amounts of each user and window."""
    grouped = builder.stream(given.input, orders()).group_by_key().windowed_by(windows)
    totals = grouped.agg(n=count(), total=sum_("amount"))
    totals.to_stream().to(given.output, Produced.with_(value_serde=Serdes.json()))


def run(build: Build) -> None:
    """Run the scenario's topology until SIGTERM."""

    def built(given: argparse.Namespace) -> Topology:
        builder = StreamsBuilder()
        build(builder, given)
        return builder.build()

    run_topology(built)


def run_topology(build: Callable[[argparse.Namespace], Topology]) -> None:
    """Run the topology for the command line until SIGTERM."""
    given = _arguments()
    app = StreamsApp(build(given), _settings(given))
    signal.signal(signal.SIGTERM, lambda *_: app.close())
    app.start()
    while not app.wait():
        pass
    timings = [dataclasses.asdict(timing) for timing in app.epoch_timings()]
    if given.timings is not None:
        given.timings.write_text(json.dumps(timings))
    for timing in timings[-40:]:
        print(timing, file=sys.stderr)
    if app.error is not None:
        sys.exit(str(app.error))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("input", "output", "application-id", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--script", help="which of the scripts, of scenarios in SQL")
    parser.add_argument("--table", help="topic of the table, where the scenario has one")
    log = parser.add_mutually_exclusive_group(required=True)
    log.add_argument("--bootstrap", help="a Kafka broker")
    log.add_argument("--log-dir", help="folder of an embedded log")
    parser.add_argument("--commit-interval-ms", type=int, help="default: Hayase's own")
    parser.add_argument("--timings", type=Path, help="where to write the timings of the last 1,000 epochs")
    return parser.parse_args()


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "application.id": given.application_id,
        "processing.guarantee": given.guarantee,
        "state.dir": given.state_dir,
        "num.stream.threads": 2,
        "max.records.per.epoch": 500_000,
    }
    if given.bootstrap is not None:
        settings |= {"bootstrap.servers": given.bootstrap, "producer.compression.type": "lz4"}
    else:
        settings["log.dir"] = given.log_dir
    if given.commit_interval_ms is not None:
        settings["commit.interval.ms"] = given.commit_interval_ms
    return settings
