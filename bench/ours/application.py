"""What the scenarios share: arguments, settings, and running until SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

import polars as pl

from hayase import Consumed, Serdes, StreamsApp, StreamsBuilder, Topology

ORDER = {
    "order_id": pl.Int64,
    "user": pl.String,
    "product": pl.String,
    "region": pl.String,
    "amount": pl.Int64,
    "quantity": pl.Int64,
    "status": pl.String,
}


def orders() -> Consumed:
    """Serdes of the input topic."""
    return Consumed.with_(Serdes.string(), Serdes.json(schema=ORDER))


def run(build: Callable[[StreamsBuilder, str, str], None]) -> None:
    """Run the scenario's topology until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "input", "output", "application-id", "guarantee", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    builder = StreamsBuilder()
    build(builder, given.input, given.output)
    topology: Topology = builder.build()
    app = StreamsApp(
        topology,
        {
            "application.id": given.application_id,
            "bootstrap.servers": given.bootstrap,
            "processing.guarantee": given.guarantee,
            "state.dir": given.state_dir,
            "num.stream.threads": 2,
            "producer.compression.type": "lz4",
            "max.records.per.epoch": 500_000,
        },
    )
    signal.signal(signal.SIGTERM, lambda *_: app.close())
    app.start()
    while not app.wait():
        pass
    for timing in app.epoch_timings()[-40:]:
        print(timing, file=sys.stderr)
    if app.error is not None:
        sys.exit(str(app.error))
