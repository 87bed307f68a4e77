"""Memory of a worker: a large snapshot, a large transaction, many connectors: `python -m bench cdc-memory`."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass

import httpx2
from rich.console import Console
from rich.table import Table

from bench.cdc import ROWS, TABLE
from bench.connect_sides import CONVERTER, Worker, running_ours
from bench.machine import Machine
from bench.measure import wait_until
from hayase.testing.postgres_server import PostgresServer

_WAIT_S = 3600.0
_REST_S = 10.0
_SERVER = {"max_replication_slots": "100", "max_wal_senders": "100", "max_connections": "400", "max_wal_size": "8GB"}
PLACES = {"in process": (), "on Spark": ("--master", "local[2]")}
"""Where tasks run, and the options of the worker for that."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        places: of `PLACES`.
        rows: of the snapshot.
        changes: of the transaction.
        connectors: how many run together at the end.
    """

    places: tuple[str, ...]
    rows: int
    changes: int
    connectors: int


@dataclass(slots=True)
class Peaks:
    """The most proportional memory of all processes of a worker, in MB.

    Attributes:
        one_capture_mb: while a capture of a small table runs.
        snapshot_mb: while the snapshot is read.
        transaction_mb: while the transaction is read, which is one transaction of the log as well.
        connectors_mb: with all connectors.
    """

    one_capture_mb: float = 0.0
    snapshot_mb: float = 0.0
    transaction_mb: float = 0.0
    connectors_mb: float = 0.0


def run(options: Options, console: Console) -> str:
    """Measure and show what came out, also as a JSON line.

    Raises:
        RunError: a worker ended by itself, or does not come to where it should.
    """
    found: dict[str, Peaks] = {}
    with Machine() as machine, PostgresServer(settings=_SERVER) as server:
        for number, place in enumerate(options.places):
            database = f"place{number}"
            with server.connect() as connection:
                connection.execute(f"CREATE DATABASE {database}".encode())
            with server.connect(database) as connection:
                connection.execute(TABLE)
                connection.execute(ROWS, (options.rows,))
                for small in range(options.connectors):
                    connection.execute(f"CREATE TABLE small_{small} (id int PRIMARY KEY)".encode())
            with running_ours(machine.kafka.bootstrap, machine.folder / database, PLACES[place]) as worker:
                found[place] = _measure(worker, server, database, options)
    table = Table("MB", *found, title=f"memory: {options.rows:,} rows, then {options.changes:,} changes at once")
    for name in asdict(Peaks()):
        table.add_row(name, *(f"{getattr(peaks, name):,.0f}" for peaks in found.values()))
    console.print(table)
    peaks = {place: asdict(each) for place, each in found.items()}
    return json.dumps({"benchmark": "cdc-memory", **asdict(options), "peaks": peaks})


def _measure(worker: Worker, server: PostgresServer, database: str, options: Options) -> Peaks:
    peaks = Peaks()
    worker.create("small_0", _config(server, database, "small_0"))
    peaks.one_capture_mb = _peak(worker, lambda: time.sleep(_REST_S))
    worker.create("items", _config(server, database, "items") | {"transaction.boundary": "connector"})
    peaks.snapshot_mb = _peak(worker, lambda: _wait_for(worker, options.rows))
    with server.connect(database) as connection:
        connection.execute("UPDATE items SET b = b + 1 WHERE id <= %s", (options.changes,))
    peaks.transaction_mb = _peak(worker, lambda: _wait_for(worker, options.rows + options.changes))
    for number in range(1, options.connectors - 1):
        worker.create(f"small_{number}", _config(server, database, f"small_{number}"))
    peaks.connectors_mb = _peak(worker, lambda: time.sleep(_REST_S))
    return peaks


def _peak(worker: Worker, wait) -> float:  # type: ignore[no-untyped-def]  # a function without arguments
    """The most memory while something is waited for."""
    worker.group.peak_pss_mb = 0.0
    wait()
    return worker.group.peak_pss_mb


def _wait_for(worker: Worker, records: int) -> None:
    """Wait until the capture of the large table has written so many records."""

    def written() -> bool:
        page = httpx2.get(f"{worker.url}/metrics", timeout=120).text
        found = re.search(r'^kafka_connect_source_record_write_total\{connector="items".*\} (\S+)$', page, re.MULTILINE)
        return found is not None and float(found[1]) >= records

    wait_until(written, f"{records:,} records are written", _WAIT_S)


def _config(server: PostgresServer, database: str, table: str) -> dict[str, str]:
    name = f"{database}_{table}"
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector", **server.connector_config(database),
        "topic.prefix": name, "slot.name": name, "publication.name": name, "table.include.list": f"public.{table}",
        "publication.autocreate.mode": "filtered", "exactly.once.support": "required",
        "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
        **{f"{part}.converter": CONVERTER for part in ("key", "value")},
        **{f"{part}.converter.schemas.enable": "false" for part in ("key", "value")},
    }  # fmt: skip
