"""The time of a nearly empty epoch and where it goes: `python -m bench epoch`.

Ours only; there is no peer to compare with.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.ours import count_by_key
from hayase import StreamsApp, StreamsBuilder
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch
from hayase.runtime.driver.progress import EpochTiming
from hayase.testing.kafka_broker import KafkaBroker

_ORDER = b'{"order_id":%d,"user":"u%d","product":"p","region":"eu","amount":1,"quantity":1,"status":"paid"}'
_RECORDS = 10
_WARM_UP = 20


def run(epochs: int, console: Console) -> None:
    """Trickle ten records at a time into `count_by_key` on a real broker, and show the medians over the epochs."""
    with tempfile.TemporaryDirectory() as folder, KafkaBroker(jvm_options=()) as broker:
        log = open_log(LogConfig("kafka", broker.bootstrap_servers))
        log.create_topic("orders", 2)
        log.create_topic("totals", 2)
        builder = StreamsBuilder()
        count_by_key.build(builder, argparse.Namespace(input="orders", output="totals"))
        settings = {
            "application.id": "epoch",
            "bootstrap.servers": broker.bootstrap_servers,
            "state.dir": str(Path(folder) / "state"),
            "commit.interval.ms": 0,
        }
        with StreamsApp(builder.build(), settings) as app:
            app.start()
            _trickle(app, log, epochs + _WARM_UP)
            timings = app.epoch_timings()[_WARM_UP:]
        log.close()
    show(timings, console)


def _trickle(app: StreamsApp, log: Log, epochs: int) -> None:
    writer = log.writer()
    number = 0
    while len(app.epoch_timings()) < epochs and app.error is None:
        numbers = range(number, number + _RECORDS)
        now_ms = time.time_ns() // 1_000_000
        keys: list[bytes | None] = [b"u%d" % n for n in numbers]
        values: list[bytes | None] = [_ORDER % (n, n) for n in numbers]
        writer.append([OutputBatch("orders", keys, values, [now_ms] * _RECORDS)])
        number += _RECORDS
        time.sleep(0.15)
    writer.close()


def show(timings: list[EpochTiming], console: Console) -> None:
    """Medians and 90th percentiles of each part, in milliseconds."""
    table = Table(title=f"{len(timings)} epochs of about {_RECORDS} records, exactly-once on Kafka, ms")
    for column in ("part", "median", "90th percentile"):
        table.add_column(column, justify="left" if column == "part" else "right")
    parts: dict[str, list[float]] = {}
    for timing in timings:
        for name, value in timing.spark_ms.items():
            parts.setdefault(f"Spark: {name}", []).append(value)
        for name, seconds in timing.bundle_ms.items():
            parts.setdefault(f"slowest bundle: {name}", []).append(seconds)
    for name, values in parts.items():
        high = statistics.quantiles(values, n=10)[-1] if len(values) > 1 else values[0]
        table.add_row(name, f"{statistics.median(values):.1f}", f"{high:.1f}")
    console.print(table)
