"""The SQL server from outside: how soon it answers, pull queries a second, rows of scans, latency of push queries."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.machine import Machine
from bench.measure import RunError, wait_until
from bench.server_load import (
    LookedUp,
    apart,
    beside,
    committed_times,
    feed,
    latencies_ms,
    listen,
    look_up,
    write_orders,
)
from bench.server_process import START_S, ServerProcess
from hayase.client.sync_client import SqlClient

_IDLE_S = 10.0
_FIRST_ORDERS = 100
_REST_S = 75.0
"""Spare processes of the runtime end after a minute."""
_SETTLE_S = 3.0
_LOOK_S = 0.25
_QUIET_S = 3.0
_SCANS = 5
_TOPIC = "orders"
_STREAM = (
    f"CREATE STREAM orders (id INT KEY, cents INT, sent BIGINT) "
    f"WITH (kafka_topic='{_TOPIC}', value_format='JSON', partitions=2);"
)
_AGAIN = f"CREATE STREAM again (id INT KEY) WITH (kafka_topic='{_TOPIC}', value_format='JSON');"
_COUNTS = "CREATE TABLE counts AS SELECT id, COUNT(*) AS n, SUM(cents) AS cents FROM orders GROUP BY id;"
_SHOWN = "CREATE STREAM shown WITH (kafka_topic='shown') AS SELECT id, sent FROM orders WHERE cents >= 0;"


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        log: `kafka` or `embedded`.
        in_process: queries run in the server's process, without Spark.
        queries: persistent queries that run beside those that are measured.
        keys: rows of the table.
        lookups: look-ups per second.
        rate: orders per second while there are push queries.
        seconds: of each measured part.
        clients: connections of look-ups.
        listeners: push queries at a time.
    """

    log: str
    in_process: bool
    queries: int
    keys: int
    lookups: int
    rate: int
    seconds: float
    clients: int
    listeners: int


@dataclass(slots=True)
class Measured:
    """What came out; times from the command, or from the request, in seconds or milliseconds.

    Attributes:
        info_s: to the first answer of /info.
        ddl_s: to the answer of a first CREATE STREAM.
        running_s: from the last CREATE to all queries RUNNING.
        capacity_per_s: orders that all queries process a second, when they have many to process.
        lookup_orders_per_s: orders per second beside look-ups: half of that.
        lookups_per_s: pull queries by key, of all clients.
        lookup_p50_ms: from when it was due to its answer.
        lookup_p99_ms: as well.
        lookup_cores: cores that the processes of the server take meanwhile.
        lookup_client_cores: cores that the client takes.
        first_output_s: from CREATE … AS SELECT to its first row, with all other queries running.
        push_p50_ms: from when a row that a persistent query writes can be read in the log to each listener.
        push_p99_ms: as well.
        order_to_push_p50_ms: from the order to each listener.
        push_cores: cores that the processes of the server take meanwhile.
        scanned_rows_per_s: of a scan of the whole table, one client.
        scan_mb: how much more memory all processes have at most while it runs.
        decoded_rows_per_cpu_s: of a scan that finds nothing, by the CPU time of the server's processes.
        idle_cpu: cores that all processes take while nothing comes, once all queries have processed a few orders: as
            `runtime` measures what a shared runtime takes.
        idle_pss_mb: memory of all processes then.
        rested_pss_mb: memory after all that is measured here, and a pause.
        peak_pss_mb: the most memory that all processes had.
        restart_ddl_s: from the command to the answer of a CREATE STREAM, at a second start.
        restart_s: to all queries RUNNING.
    """

    info_s: float = 0.0
    ddl_s: float = 0.0
    running_s: float = 0.0
    capacity_per_s: float = 0.0
    lookup_orders_per_s: float = 0.0
    lookups_per_s: float = 0.0
    lookup_p50_ms: float = 0.0
    lookup_p99_ms: float = 0.0
    lookup_cores: float = 0.0
    lookup_client_cores: float = 0.0
    first_output_s: float = 0.0
    push_p50_ms: float = 0.0
    push_p99_ms: float = 0.0
    order_to_push_p50_ms: float = 0.0
    push_cores: float = 0.0
    scanned_rows_per_s: float = 0.0
    scan_mb: float = 0.0
    decoded_rows_per_cpu_s: float = 0.0
    idle_cpu: float = 0.0
    idle_pss_mb: float = 0.0
    rested_pss_mb: float = 0.0
    peak_pss_mb: float = 0.0
    restart_ddl_s: float = 0.0
    restart_s: float = 0.0


def run(options: Options, console: Console) -> str:
    """Measure and show what came out, also as a JSON line.

    Raises:
        RunError: the server ended by itself, or does not come to where it should.
    """
    measured = Measured()
    with Machine() as machine:
        server = ServerProcess(machine, options.log, in_process=options.in_process)
        with server.running() as client:
            measured.info_s = server.info_s
            client.execute(_STREAM)
            measured.ddl_s = time.monotonic() - server.begin_s
            _start_queries(client, server, options, measured)
            _look_up(server, options, measured)
            _push(client, server, options, measured)
            _scan(client, server, options, measured)
            time.sleep(_REST_S)
            measured.rested_pss_mb = server.group.sample_memory()
            measured.peak_pss_mb = server.peak_pss_mb
        with server.running() as client:
            client.execute(_AGAIN)
            measured.restart_ddl_s = time.monotonic() - server.begin_s
            wait_until(lambda: _all_running(client), "queries are RUNNING again", START_S)
            measured.restart_s = time.monotonic() - server.begin_s
    table = Table("measure", "value", title=f"SQL server on {options.log}")
    for name, value in asdict(measured).items():
        table.add_row(name, f"{value:,.3f}" if value < 10 else f"{value:,.0f}")
    console.print(table)
    return json.dumps({"benchmark": "server", **asdict(options), **asdict(measured)})


def _start_queries(client: SqlClient, server: ServerProcess, options: Options, measured: Measured) -> None:
    """Start all queries, let them rest, and give them an order of every key, which shows how many they can process."""
    others = "".join(
        f"CREATE STREAM other{number} AS SELECT id, cents + {number} AS cents FROM orders WHERE cents < 0;"
        for number in range(options.queries)
    )
    begin_s = time.monotonic()
    client.execute(f"{_COUNTS}{others}")
    wait_until(lambda: _all_running(client), "queries are RUNNING", START_S)
    measured.running_s = time.monotonic() - begin_s
    write_orders(server.log, _TOPIC, range(_FIRST_ORDERS))
    _idle(server, measured)
    write_orders(server.log, _TOPIC, range(options.keys))  # with the first orders much is done that is done once
    _wait_until_idle(server)
    wait_until(lambda: _rows_of(client, "SELECT id FROM counts;") == options.keys, "all rows are in the table", START_S)
    each = options.keys * (options.queries + 1)
    consumed = server.consumed()
    begin_s = time.monotonic()
    write_orders(server.log, _TOPIC, range(options.keys))
    wait_until(
        lambda: server.consumed() >= consumed + each, "all queries have processed all orders", START_S, every_s=_LOOK_S
    )
    measured.capacity_per_s = options.keys / (time.monotonic() - begin_s)


def _idle(server: ServerProcess, measured: Measured) -> None:
    """What all processes take while nothing comes."""
    _wait_until_idle(server)
    before_s = server.group.cpu_s()
    time.sleep(_IDLE_S)
    measured.idle_cpu = (server.group.cpu_s() - before_s) / _IDLE_S
    measured.idle_pss_mb = server.group.sample_memory()


def _wait_until_idle(server: ServerProcess) -> None:
    """Wait until no query processes anything."""
    before = -1.0
    while (consumed := server.consumed()) != before or not consumed:
        before = consumed
        time.sleep(_QUIET_S)


def _look_up(server: ServerProcess, options: Options, measured: Measured) -> None:
    """Look-ups while the queries run at half of their capacity."""
    measured.lookup_orders_per_s = measured.capacity_per_s / 2
    with (
        beside(feed, server.log, _TOPIC, options.keys, measured.lookup_orders_per_s),
        server.unwatched(),
    ):
        time.sleep(_SETTLE_S)
        before_s = server.group.cpu_s()
        found: LookedUp = apart(
            look_up, server.url, "counts", options.keys, options.lookups, options.seconds, options.clients
        )
        measured.lookup_cores = (server.group.cpu_s() - before_s) / found.span_s
    measured.lookups_per_s = len(found.latencies_ms) / found.span_s
    measured.lookup_p50_ms, measured.lookup_p99_ms = np.percentile(found.latencies_ms, [50, 99]).tolist()
    measured.lookup_client_cores = found.client_cpu_s / found.span_s


def _push(client: SqlClient, server: ServerProcess, options: Options, measured: Measured) -> None:
    """Push queries of what a query writes, once it has processed all that was there before."""
    begin_s = time.monotonic()
    client.execute(_SHOWN)
    with client.query("SELECT id FROM shown EMIT CHANGES LIMIT 1;") as rows:
        next(iter(rows))
    measured.first_output_s = time.monotonic() - begin_s
    _wait_until_idle(server)
    select = "SELECT sent FROM shown EMIT CHANGES;"
    with (
        beside(listen, server.url, select, options.listeners) as listened,
        beside(committed_times, server.log, "shown", "SENT") as written,
        beside(feed, server.log, _TOPIC, options.keys, options.rate),
    ):
        time.sleep(_SETTLE_S)
        before_s = server.group.cpu_s()
        time.sleep(options.seconds)
        measured.push_cores = (server.group.cpu_s() - before_s) / options.seconds
        seen, readable_s = listened(), written()
    if not all(seen):
        raise RunError("a listener of a push query has got no row")
    pushed_ms = latencies_ms(seen, readable_s.get)
    measured.push_p50_ms, measured.push_p99_ms = np.percentile(pushed_ms, [50, 99]).tolist()
    measured.order_to_push_p50_ms = float(np.percentile(latencies_ms(seen, lambda sent_us: sent_us / 1e6), 50))


def _scan(client: SqlClient, server: ServerProcess, options: Options, measured: Measured) -> None:
    """Scans once all is quiet: one for its speed, one for its memory, a few for their CPU time."""
    _wait_until_idle(server)
    begin_s = time.monotonic()
    measured.scanned_rows_per_s = _rows_of(client, "SELECT * FROM counts;") / (time.monotonic() - begin_s)
    before_mb = server.group.sample_memory()
    with ThreadPoolExecutor(1) as pool:
        scan = pool.submit(_rows_of, client, "SELECT * FROM counts;")
        while not scan.done():
            measured.scan_mb = max(measured.scan_mb, server.group.sample_memory() - before_mb)
    before_s = server.group.cpu_s()
    for _ in range(_SCANS):
        _rows_of(client, "SELECT id FROM counts WHERE cents < 0;")
    measured.decoded_rows_per_cpu_s = _SCANS * options.keys / (server.group.cpu_s() - before_s)


def _all_running(client: SqlClient) -> bool:
    (answer,) = client.execute("SHOW QUERIES;")
    return all(query["statusCount"].keys() == {"RUNNING"} for query in answer["queries"])


def _rows_of(client: SqlClient, query: str) -> int:
    with client.query(query) as rows:
        return sum(1 for _ in rows)
