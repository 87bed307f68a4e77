"""Change data capture of PostgreSQL: `python -m bench cdc`.

Hayase's worker, and Kafka Connect's own with Debezium's connector, on one broker and one PostgreSQL, both exactly once:
a snapshot, changes that wait, and the time from a commit to a `read_committed` reader.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass

import numpy as np
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from bench.connect_sides import WAIT_S, Pace, Worker, running_worker
from bench.machine import Machine
from bench.measure import wait_until
from hayase.testing.connect_worker import DEBEZIUM_POSTGRES
from hayase.testing.postgres_server import PostgresServer

TABLE = "CREATE TABLE items (id bigint PRIMARY KEY, a text, b int, c numeric(10,2), d timestamptz, e boolean)"
ROWS = (
    "INSERT INTO items SELECT i, 'item number ' || i, i %% 1000, i %% 100000 / 100.0, now(), i %% 2 = 0 "
    "FROM generate_series(1, %s) i"
)
_ROWS_PER_TRANSACTION = 500


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        sides: workers, in this order.
        rows: of the snapshot, and changes.
        rate: commits a second while latency is measured, each of one change.
        seconds: for how long.
    """

    sides: tuple[str, ...]
    rows: int
    rate: int
    seconds: float


@dataclass(slots=True)
class Measured:
    """What came out for one side.

    Attributes:
        answer_s: from the worker's command to its first answer.
        running_s: from the request for the connector until its task runs.
        snapshot_per_s: rows of the snapshot a second.
        snapshot_cpu_us: CPU of the worker a row.
        changes_per_s: changes a second.
        changes_cpu_us: CPU of the worker a change.
        latency_p50_ms: from a commit to the reader.
        latency_p99_ms: from a commit to the reader.
        peak_pss_mb: the most memory of the worker.
    """

    answer_s: float = 0.0
    running_s: float = 0.0
    snapshot_per_s: float = 0.0
    snapshot_cpu_us: float = 0.0
    changes_per_s: float = 0.0
    changes_cpu_us: float = 0.0
    latency_p50_ms: float = 0.0
    latency_p99_ms: float = 0.0
    peak_pss_mb: float = 0.0


def run(options: Options, console: Console) -> str:
    """Measure and show what came out, also as a JSON line.

    Raises:
        RunError: a worker ended by itself, or does not come to where it should.
    """
    found: dict[str, Measured] = {}
    with Machine() as machine, PostgresServer() as server:
        bootstrap = machine.kafka.bootstrap
        for side in options.sides:
            with server.connect() as connection:
                connection.execute(f"CREATE DATABASE {side}".encode())
            with server.connect(side) as connection:
                connection.execute(TABLE)
                connection.execute(ROWS, (options.rows,))
            with running_worker(side, bootstrap, machine.folder / side, DEBEZIUM_POSTGRES) as worker:
                found[side] = _measure(side, worker, server, bootstrap, options)
    table = Table("measure", *found, title=f"capture of {options.rows:,} rows and changes")
    for name in asdict(Measured()):
        values = (getattr(measured, name) for measured in found.values())
        table.add_row(name, *(f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for value in values))
    console.print(table)
    results = {side: asdict(measured) for side, measured in found.items()}
    return json.dumps({"benchmark": "cdc", "rows": options.rows, "rate": options.rate, **results})


def _measure(side: str, worker: Worker, server: PostgresServer, bootstrap: str, options: Options) -> Measured:
    measured = Measured(answer_s=worker.answer_s)
    reader = _Reader(bootstrap, f"{side}.public.items")
    pace = Pace(worker.group)
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        **server.connector_config(side),
        "topic.prefix": side,
        "slot.name": side,
        "plugin.name": "pgoutput",
        "exactly.once.support": "required",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
    }
    measured.running_s = worker.create("items", config)
    measured.snapshot_per_s, measured.snapshot_cpu_us = pace.measure(reader.count, options.rows, "rows")
    with server.connect(side) as connection:
        _wait_for_slot(connection, side)
        worker.stop("items")
        for first in range(1, options.rows + 1, _ROWS_PER_TRANSACTION):
            last = first + _ROWS_PER_TRANSACTION
            connection.execute("UPDATE items SET b = b + 1 WHERE id >= %s AND id < %s", (first, last))
        reader.counted = 0
        worker.resume("items")
        measured.changes_per_s, measured.changes_cpu_us = pace.measure(reader.count, options.rows, "changes")
    latencies_ms = _latencies(side, server, reader, options)
    measured.latency_p50_ms, measured.latency_p99_ms = np.percentile(latencies_ms, [50, 99]).tolist()
    measured.peak_pss_mb = worker.group.peak_pss_mb
    worker.stop("items")
    reader.close()
    return measured


def _wait_for_slot(connection, slot: str) -> None:  # type: ignore[no-untyped-def]  # psycopg is an extra
    """Wait until the stream of changes is read."""
    sql = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
    wait_until(lambda: connection.execute(sql, (slot,)).fetchone() == (True,), "the slot is read", WAIT_S)


def _latencies(side: str, server: PostgresServer, reader: _Reader, options: Options) -> list[float]:
    """Milliseconds from each commit until it was read, the first fifth left out."""
    commits = round(options.rate * options.seconds)
    committed_s: dict[int, float] = {}

    def write() -> None:
        with server.connect(side) as connection:
            due_s = time.monotonic()
            for number in range(commits):
                time.sleep(max(0.0, due_s - time.monotonic()))
                connection.execute("UPDATE items SET b = %s WHERE id = 1", (1_000_000 + number,))
                committed_s[number] = time.monotonic()
                due_s += 1 / options.rate

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    seen_s = reader.numbers(commits)
    writer.join()
    return [(seen_s[number] - committed_s[number]) * 1000 for number in range(commits // 5, commits)]


class _Reader:
    """Reads a topic of one partition as a `read_committed` consumer does.

    Attributes:
        counted: records that were counted.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.counted = 0
        self._topic = topic
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
            "isolation.level": "read_committed", "fetch.wait.max.ms": 5, "auto.offset.reset": "earliest",
        })  # fmt: skip
        self._assigned = False

    def count(self) -> int:
        """How many records came; reads those that are there."""
        if not self._assigned:
            if self._topic not in self._consumer.list_topics().topics:
                return 0
            self._consumer.assign([TopicPartition(self._topic, 0, 0)])
            self._assigned = True
        while messages := self._consumer.consume(10_000, timeout=0.01):
            self.counted += sum(message.error() is None for message in messages)
        return self.counted

    def numbers(self, count: int) -> dict[int, float]:
        """When each of the changes of the latency's part came."""
        seen_s: dict[int, float] = {}
        while len(seen_s) < count:
            for message in self._consumer.consume(1_000, timeout=0.002):
                if message.error() is None:
                    number = json.loads(message.value() or b"")["after"]["b"] - 1_000_000
                    seen_s[number] = time.monotonic()
        return seen_s

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()
