"""The SQL server from outside: how soon it answers, pull queries a second, rows of scans, latency of push queries."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.machine import Machine
from bench.measure import RunError, running, wait_until
from bench.processes import ProcessGroup
from hayase.client.sync_client import SqlClient
from hayase.core.errors import HayaseError

_ROOT = Path(__file__).parent.parent
_START_S = 300.0
_TICK_S = 0.05
_STOP_GRACE_S = 120.0
_IDLE_S = 10.0
_STREAM = "CREATE STREAM orders (id INT KEY, cents INT, sent BIGINT) WITH (kafka_topic='orders', value_format='JSON', "
_COUNTS = "CREATE TABLE counts AS SELECT id, COUNT(*) AS n, SUM(cents) AS cents FROM orders GROUP BY id;"
_SENT = "CREATE STREAM shown AS SELECT id, sent FROM orders WHERE cents >= 0;"


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure.

    Attributes:
        log: `kafka` or `embedded`.
        in_process: queries run in the server's process, without Spark.
        queries: persistent queries that run beside those that are measured.
        keys: rows of the table.
        rate: orders per second while look-ups and push queries are measured.
        seconds: of each measured part.
        clients: that look up at a time.
        listeners: push queries at a time.
    """

    log: str
    in_process: bool
    queries: int
    keys: int
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
        first_output_s: from CREATE … AS SELECT to its first row, with all other queries running.
        lookups_per_s: pull queries by key, of all clients.
        lookup_p50_ms: their latency.
        lookup_p99_ms: their latency.
        scanned_rows_per_s: of a scan of the whole table, one client.
        push_p50_ms: from a row's insertion to each listener, of what a persistent query writes.
        push_p99_ms: as well.
        idle_cpu: cores that all processes take while nothing comes.
        peak_pss_mb: the most memory that all processes had.
        restart_s: from the command to all queries RUNNING, at a second start.
    """

    info_s: float = 0.0
    ddl_s: float = 0.0
    running_s: float = 0.0
    first_output_s: float = 0.0
    lookups_per_s: float = 0.0
    lookup_p50_ms: float = 0.0
    lookup_p99_ms: float = 0.0
    scanned_rows_per_s: float = 0.0
    push_p50_ms: float = 0.0
    push_p99_ms: float = 0.0
    idle_cpu: float = 0.0
    peak_pss_mb: float = 0.0
    restart_s: float = 0.0


def run(options: Options, console: Console) -> str:
    """Measure and show what came out, also as a JSON line.

    Raises:
        RunError: the server ended by itself, or does not come to where it should.
    """
    measured = Measured()
    with Machine() as machine:
        server = _Server(options, machine)
        with server.running() as client:
            measured.info_s, measured.ddl_s = server.info_s, _ddl(client, options, server)
            _measure(client, server, options, measured)
            measured.peak_pss_mb = server.peak_pss_mb
        with server.running() as client:
            wait_until(lambda: _all_running(client), "queries are RUNNING again", _START_S)
            measured.restart_s = time.monotonic() - server.begin_s
    table = Table("measure", "value", title=f"SQL server on {options.log}")
    for name, value in asdict(measured).items():
        table.add_row(name, f"{value:,.3f}" if value < 10 else f"{value:,.0f}")
    console.print(table)
    return json.dumps({"benchmark": "server", **asdict(options), **asdict(measured)})


def _ddl(client: SqlClient, options: Options, server: _Server) -> float:
    client.execute(f"{_STREAM}partitions=2);")
    return time.monotonic() - server.begin_s


def _measure(client: SqlClient, server: _Server, options: Options, measured: Measured) -> None:
    others = "".join(
        f"CREATE STREAM other{number} AS SELECT id, cents + {number} AS cents FROM orders WHERE cents < 0;"
        for number in range(options.queries)
    )
    begin_s = time.monotonic()
    client.execute(f"{_COUNTS}{others}")
    wait_until(lambda: _all_running(client), "queries are RUNNING", _START_S)
    measured.running_s = time.monotonic() - begin_s
    _insert(client, range(options.keys))
    wait_until(
        lambda: _rows_of(client, "SELECT id FROM counts;") >= options.keys, "all rows are in the table", _START_S
    )
    with _fed(server, options):
        measured.first_output_s = _first_output(client)
        latencies_ms, span_s = _lookups(server, options)
        measured.lookups_per_s = len(latencies_ms) / span_s
        measured.lookup_p50_ms, measured.lookup_p99_ms = np.percentile(latencies_ms, [50, 99]).tolist()
        pushed_ms = _pushed(server, options)
        measured.push_p50_ms, measured.push_p99_ms = np.percentile(pushed_ms, [50, 99]).tolist()
    begin_s = time.monotonic()
    measured.scanned_rows_per_s = _rows_of(client, "SELECT * FROM counts;") / (time.monotonic() - begin_s)
    before_s = server.group.cpu_s()
    time.sleep(_IDLE_S)
    measured.idle_cpu = (server.group.cpu_s() - before_s) / _IDLE_S


class _Server:
    """A server in a process of its own, started and stopped as often as wanted over one log."""

    def __init__(self, options: Options, machine: Machine) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        folder = machine.folder
        self._log_file = folder / "server.log"
        self._command = [sys.executable, "-m", "hayase", "server", "--listen", self.url]
        settings = {
            "state.dir": str(folder / "state"),
            "checkpoint.dir": str(folder / "checkpoint"),
            "commit.interval.ms": "100",
            "ksql.streams.auto.offset.reset": "earliest",
        }
        if options.log == "kafka":
            self._command += ["-b", machine.kafka.bootstrap]
        else:
            settings["log.dir"] = str(folder / "server-log")
        if options.in_process:
            self._command.append("--in-process")
        for name, value in settings.items():
            self._command += ["-c", f"{name}={value}"]
        self.begin_s = 0.0
        self.info_s = 0.0
        self.peak_pss_mb = 0.0
        self.group: ProcessGroup

    @contextmanager
    def running(self) -> Iterator[SqlClient]:
        """The server from its first answer on; it is stopped as Ctrl-C stops it."""
        self.begin_s = time.monotonic()
        watched = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(watched,), daemon=True)
        with (
            running(self._command, self._log_file, _ROOT, stop_grace_s=_STOP_GRACE_S) as self.group,
            self.client() as client,
        ):
            try:
                wait_until(lambda: self._answers(client), "the server answers", _START_S, self.group)
                self.info_s = time.monotonic() - self.begin_s
                watcher.start()
                yield client
            finally:
                watched.set()

    def client(self) -> SqlClient:
        """A connection of its own, for a thread."""
        return SqlClient(self.url, timeout_s=_START_S)

    def _answers(self, client: SqlClient) -> bool:
        with suppress(HayaseError):
            return bool(client.info())
        return False

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(1.0):
            self.group.sample_memory()
            self.peak_pss_mb = max(self.peak_pss_mb, self.group.peak_pss_mb)


def _all_running(client: SqlClient) -> bool:
    (answer,) = client.execute("SHOW QUERIES;")
    return all(query["statusCount"].keys() == {"RUNNING"} for query in answer["queries"])


def _rows_of(client: SqlClient, query: str) -> int:
    with client.query(query) as rows:
        return sum(1 for _ in rows)


def _insert(client: SqlClient, keys: range) -> None:
    now_ms = time.time_ns() // 1_000_000
    client.insert("orders", ({"ID": key, "CENTS": key % 1000, "SENT": now_ms} for key in keys))


@contextmanager
def _fed(server: _Server, options: Options) -> Iterator[None]:
    """Orders come at the rate in this block."""
    ended = threading.Event()

    def feed() -> None:
        each, key = max(1, round(options.rate * _TICK_S)), 0
        with server.client() as client:
            due_s = time.monotonic()
            while not ended.wait(max(0.0, due_s - time.monotonic())):
                _insert(client, range(key, key + each))
                key, due_s = (key + each) % options.keys, due_s + each / options.rate

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield
    finally:
        ended.set()
        feeder.join()


def _first_output(client: SqlClient) -> float:
    begin_s = time.monotonic()
    client.execute(_SENT)
    with client.query("SELECT id FROM shown EMIT CHANGES LIMIT 1;") as rows:
        next(iter(rows))
    return time.monotonic() - begin_s


def _lookups(server: _Server, options: Options) -> tuple[list[float], float]:
    """The latency of each look-up by a key, in milliseconds, and how long all took."""
    latencies: list[list[float]] = [[] for _ in range(options.clients)]
    begin_s = time.monotonic()
    until_s = begin_s + options.seconds

    def look_up(number: int) -> None:
        key = number
        with server.client() as client:
            while (before_s := time.monotonic()) < until_s:
                found = _rows_of(client, f"SELECT * FROM counts WHERE id = {key};")
                if found != 1:
                    raise RunError(f"key {key} has {found} rows")
                latencies[number].append((time.monotonic() - before_s) * 1000)
                key = (key + 7919) % options.keys

    _in_threads(look_up, options.clients)
    return [each for one in latencies for each in one], time.monotonic() - begin_s


def _pushed(server: _Server, options: Options) -> list[float]:
    """Milliseconds from the insertion of a row to each listener."""
    latencies: list[list[float]] = [[] for _ in range(options.listeners)]
    with ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(options.listeners)]
        latest = {"auto.offset.reset": "latest"}
        queries = [client.query("SELECT sent FROM shown EMIT CHANGES;", latest) for client in clients]
        until_s = time.monotonic() + options.seconds

        def listen(number: int) -> None:
            for row in queries[number]:
                latencies[number].append(time.time() * 1000 - row[0])
                if time.monotonic() > until_s:
                    break

        _in_threads(listen, options.listeners)
    found = [each for one in latencies for each in one]
    if not all(latencies):
        raise RunError("a listener of a push query has got no row")
    return found


def _in_threads(work: Callable[[int], None], count: int) -> None:
    """Run work in threads to its end; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
