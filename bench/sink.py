"""Rows of PostgreSQL from a topic: `python -m bench sink`.

Hayase's worker with its PostgreSQL sink, and Kafka Connect's own with Debezium's JDBC sink, from the same topics of one
broker into two databases of one server: upserts of rows that are new, then of the same rows. At the end both tables
must hold what the topics say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bench.connect_sides import Pace, Worker, running_worker
from bench.kafka_topics import KafkaTopics
from bench.machine import Machine
from bench.measure import RunError
from hayase.testing.connect_worker import DEBEZIUM_JDBC
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer

if TYPE_CHECKING:
    import psycopg

_TABLE = (
    "CREATE TABLE items (id bigint PRIMARY KEY, a text, b integer, c double precision, d timestamptz, e boolean, "
    "version integer)"
)
_FIELDS = {
    "id": {"type": "int64", "optional": False},
    "a": {"type": "string", "optional": True},
    "b": {"type": "int32", "optional": True},
    "c": {"type": "double", "optional": True},
    "d": {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "e": {"type": "boolean", "optional": True},
    "version": {"type": "int32", "optional": True},
}
_CLASSES = {"ours": "hayase.PostgresSinkConnector", "kafka_connect": "io.debezium.connector.jdbc.JdbcSinkConnector"}
_OF_SIDE = {
    "ours": {},
    # What makes it fastest: a statement for each batch with an array for each column, and batches twenty times larger
    # than by default. A second copy of each batch, reduced to one change a key, would only cost: keys are unique in it.
    "kafka_connect": {
        "batch.size": "10000",
        "consumer.override.max.poll.records": "10000",
        "consumer.override.fetch.min.bytes": "1000000",
        "dialect.postgres.unnest.insert.enabled": "true",
    },
}
_ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        sides: workers, in this order.
        rows: records of each topic.
        schemas: whether each record holds its schema, as Debezium's sink needs it.
    """

    sides: tuple[str, ...]
    rows: int
    schemas: bool = True


@dataclass(slots=True)
class Measured:
    """What came out for one side.

    Attributes:
        new_per_s: rows a second that were not there before.
        new_cpu_us: CPU of the worker a row.
        known_per_s: rows a second that were there.
        known_cpu_us: CPU of the worker a row.
        peak_pss_mb: the most memory of the worker.
    """

    new_per_s: float = 0.0
    new_cpu_us: float = 0.0
    known_per_s: float = 0.0
    known_cpu_us: float = 0.0
    peak_pss_mb: float = 0.0


def run(options: Options, console: Console) -> str:
    """Measure and show what came out, also as a JSON line.

    Raises:
        RunError: a worker ended by itself, does not come to where it should, or a table is wrong.
    """
    if not options.schemas and options.sides != ("ours",):
        raise RunError("Debezium's sink needs schemas: run --plain with --side ours")
    found: dict[str, Measured] = {}
    with Machine() as machine, PostgresServer() as server:
        topics = machine.kafka
        for version in (1, 2):
            topics.create(f"items-{version}", 1)
            topics.load(f"items-{version}", _records(options, version))
        for side in options.sides:
            with server.connect() as connection:
                connection.execute(f"CREATE DATABASE {side}".encode())
            with (
                server.connect(side) as connection,
                running_worker(side, topics.bootstrap, machine.folder / side, DEBEZIUM_JDBC) as worker,
            ):
                connection.execute(_TABLE)
                found[side] = _measure(side, worker, server, connection, options)
                _check(side, topics, connection)
    what = "with schemas" if options.schemas else "without schemas"
    table = Table("measure", *found, title=f"{options.rows:,} rows of JSON {what} into PostgreSQL, twice")
    for name in asdict(Measured()):
        values = (getattr(measured, name) for measured in found.values())
        table.add_row(name, *(f"{value:,.2f}" if value < 10 else f"{value:,.0f}" for value in values))
    console.print(table)
    results = {side: asdict(measured) for side, measured in found.items()}
    return json.dumps({"benchmark": "sink", "rows": options.rows, "schemas": options.schemas, **results})


def _records(options: Options, version: int) -> Iterator[tuple[str, bytes, int]]:
    """Records of one topic, in the order of their ids."""
    key = value = "%s"
    if options.schemas:
        fields = [{"field": name, **each} for name, each in _FIELDS.items()]
        key = f'{{"schema":{_struct(fields[:1])},"payload":%s}}'
        value = f'{{"schema":{_struct(fields)},"payload":%s}}'
    for number in range(1, options.rows + 1):
        row = _row(number, version)
        yield key % f'{{"id":{number}}}', (value % json.dumps(row, separators=(",", ":"))).encode(), 1_700_000_000_000


def _struct(fields: list[dict[str, object]]) -> str:
    return json.dumps({"type": "struct", "fields": fields, "optional": False}, separators=(",", ":"))


def _row(number: int, version: int) -> dict[str, object]:
    return {
        "id": number,
        "a": f"item number {number}",
        "b": number % 1000,
        "c": number % 100_000 / 100,
        "d": f"2024-01-{number % 28 + 1:02}T10:20:30.123456Z",
        "e": number % 2 == 0,
        "version": version,
    }


def _measure(
    side: str, worker: Worker, server: PostgresServer, connection: psycopg.Connection[Any], options: Options
) -> Measured:
    measured, pace = Measured(), Pace(worker.group)
    config = {
        "connector.class": _CLASSES[side],
        "connection.url": f"jdbc:postgresql://{server.host}:{server.port}/{side}",
        "connection.username": USER,
        "connection.password": PASSWORD,
        "collection.name.format": "items",
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "consumer.override.auto.offset.reset": "earliest",
        **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
        **{f"{part}.converter.schemas.enable": str(options.schemas).lower() for part in ("key", "value")},
        **_OF_SIDE[side],
    }
    worker.create(f"{side}-new", {**config, "topics": "items-1"})
    found = pace.measure(lambda: _written(connection, options.rows, 1), options.rows, "new rows")
    measured.new_per_s, measured.new_cpu_us = found
    worker.stop(f"{side}-new")
    worker.create(f"{side}-known", {**config, "topics": "items-2"})
    found = pace.measure(lambda: _written(connection, options.rows, 2), options.rows, "known rows")
    measured.known_per_s, measured.known_cpu_us = found
    worker.stop(f"{side}-known")
    measured.peak_pss_mb = worker.group.peak_pss_mb
    return measured


def _written(connection: psycopg.Connection[Any], rows: int, version: int) -> int:
    """How many rows a topic has written: it writes them in the order of their ids."""
    least, most = 0, rows
    while least < most:
        middle = (least + most + 1) // 2
        found = connection.execute("SELECT version FROM items WHERE id = %s", (middle,)).fetchone()
        if found == (version,) or (found is not None and found[0] > version):
            least = middle
        else:
            most = middle - 1
    return least


def _check(side: str, topics: KafkaTopics, connection: psycopg.Connection[Any]) -> None:
    """Whether the table holds what the topic of the second version says, row by row."""
    with connection.transaction(), connection.cursor("rows") as rows:
        rows.execute(
            "SELECT id, a, b, c, to_char(d AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS d, e, version "
            "FROM items ORDER BY id"
        )
        rows.itersize = _ROWS_AT_ONCE
        count = 0
        for (_, data), found in zip(topics.read("items-2"), rows, strict=True):
            read = json.loads(data or b"")
            wanted = tuple(read.get("payload", read).values())
            if found != wanted:
                raise RunError(f"{side}: a row is {found}, and should be {wanted}")
            count += 1
    if not count:
        raise RunError(f"{side}: there is no row")
