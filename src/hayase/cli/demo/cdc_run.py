"""The demo between a database and files: capture, webhook, `examples/ecommerce.py`, sinks, and the proof at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hayase.app.app import StreamsApp
from hayase.app.report import ProgressReport
from hayase.app.stop_request import StopRequest
from hayase.cli.connect import read_connector
from hayase.cli.demo.cdc_input import ShopDays
from hayase.cli.demo.cdc_proof import Difference, prove, sales_rows
from hayase.cli.demo.cdc_shop import CAPTURED, Shop, fill
from hayase.cli.demo.display import sales_table
from hayase.cli.demo.example import example_file, load_example
from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.topics import CDC_PARTITIONS, INPUTS, make_topics
from hayase.cli.lifecycle import run_app
from hayase.cli.quiet import stderr_to
from hayase.connect.exceptions import ConnectError
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log
from hayase.testing.postgres_server import PASSWORD, USER, PostgresServer, have_postgres_binaries

if TYPE_CHECKING:
    import psycopg

    from hayase.connect.herder.connector_runner import Failure
    from hayase.connect.worker import ConnectWorker

APPLICATION_ID = "hayase-demo-cdc"
DATABASE = "shop"
CONNECTORS = ("capture", "orders", "sales", "enriched")
WEBHOOK = "shop-orders"
SINKS = {"shop-sales": "sales", "shop-enriched": "enriched-orders"}
"""Sink connectors, and the topics that they read."""
_CLOSE_TIMEOUT = timedelta(seconds=60)
_SINKS_S = 120.0
_LOOK_S = 0.1
_PLAIN_EVERY_S = 2.0


def run_cdc_demo(orders: int, folder: Path, console: Console) -> int:
    """Run it; the exit code: 0 if the results are equal to the batch computation's, 1 if not, 130 if interrupted.

    Args:
        orders: how many.
        folder: where topics, state and files go; emptied before.
        console: where to.

    Raises:
        HayaseError: it could not run.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(folder))
        days = ShopDays(orders)
        server = _database(stack, console, days)
        config = StreamsConfig(
            {"application.id": APPLICATION_ID, "log.dir": folder / "log", "state.dir": folder / "state"}
        )
        log = open_log(log_config(config))
        stack.callback(log.close)
        make_topics(log, CDC_PARTITIONS)
        for line in (
            f"application: {example_file()}",
            f"connectors, tables, transforms: {example_file('cdc/shop.sql').parent}",
            f"topics: {', '.join(INPUTS)} on the embedded log in {folder / 'log'}",
        ):
            console.print(line, highlight=False, soft_wrap=True)
        errors = folder / "stderr.log"
        try:
            with stderr_to(errors), StopRequest() as stop:
                accepted = _run(console, server, config, log, folder, days, stop)
        except HayaseError:
            console.print(f"what Spark and the worker said is in {errors}", highlight=False, soft_wrap=True)
            raise
        if accepted is None:
            console.print("stopped before the last order; nothing was compared")
            return 130
        database = stack.enter_context(server.connect(DATABASE))
        console.print(sales_table(sales_rows(database), windows=2, top=8))
        return _show_proof(console, accepted, prove(database, accepted.accepted, folder / "enriched"), folder)


def _database(stack: ExitStack, console: Console, days: ShopDays) -> PostgresServer:
    """A server with the tables, filled."""
    if not have_postgres_binaries():
        console.print("loading PostgreSQL from Maven Central (15 MB, once on this machine)")
    server = PostgresServer()
    with console.status("starting PostgreSQL"):
        stack.enter_context(server)
    with server.connect() as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    script = example_file("cdc/shop.sql").read_text("utf-8")
    with server.connect(DATABASE) as connection:
        connection.execute(script)
        fill(connection, "users", days.users)
        fill(connection, "products", days.products)
    console.print(
        f"PostgreSQL: {server.host}:{server.port}, tables {', '.join(CAPTURED)} "
        f"({len(days.users):,} and {len(days.products)} rows)",
        highlight=False,
        soft_wrap=True,
    )
    return server


def _run(
    console: Console,
    server: PostgresServer,
    config: StreamsConfig,
    log: Log,
    folder: Path,
    days: ShopDays,
    stop: StopRequest,
) -> Shop | None:
    """Run worker, application and shop until all orders are in the sinks; `None` if they were stopped before."""
    with ExitStack() as stack:
        worker, webhook = _worker(stack, server, config, folder)
        console.print(f"connectors: {', '.join(worker.herder.connectors())}; REST at {worker.urls[0]}", highlight=False)
        app = StreamsApp(load_example(), config)
        stack.callback(app.close, _CLOSE_TIMEOUT)
        database = stack.enter_context(server.connect(DATABASE))
        with server.connect(DATABASE) as looking:
            shop = Shop(days, database, log, webhook, lambda: stop.asked)
            show = stack.enter_context(_Show(console, shop, looking))
            ended = _run_app(app, worker, shop, log, show, stop)
            show.close()
            if not ended:
                return None
            _drain_sinks(worker, log)
        return shop


def _worker(stack: ExitStack, server: PostgresServer, config: StreamsConfig, folder: Path) -> tuple[ConnectWorker, str]:
    """A worker that runs the connectors, and the URL of its webhook."""
    from hayase.connect.worker import ConnectWorker

    os.environ.update(
        SHOP_DB_HOST=server.host,
        SHOP_DB_PORT=str(server.port),
        SHOP_DB_NAME=DATABASE,
        SHOP_DB_USER=USER,
        SHOP_DB_PASSWORD=PASSWORD,
        SHOP_ENRICHED=str(folder / "enriched"),
    )
    props = {
        "group.id": DATABASE,
        "listeners": f"http://{server.host}:0",
        "plugin.path": str(example_file("cdc/shop_transforms.py").parent),
        "config.providers.env.param.allowlist.pattern": "SHOP_.*",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
    }
    worker = stack.enter_context(ConnectWorker(log_config(config), props))
    for name in CONNECTORS:
        connector = read_connector(example_file(f"cdc/connectors/{name}.json"))
        worker.herder.put_config(connector["name"], connector)
    return worker, f"{worker.urls[0]}/webhooks/{WEBHOOK}"


def _run_app(app: StreamsApp, worker: ConnectWorker, shop: Shop, log: Log, show: _Show, stop: StopRequest) -> bool:
    """Run the application; whether the shop came to its end and all of it was processed."""
    interrupted = False

    def tick(report: ProgressReport) -> None:
        nonlocal interrupted
        interrupted = interrupted or (stop.asked and not _through(report))
        _raise_failures(worker, shop)
        show.tick(report)
        if report.consumed and not shop.ident:  # users and products are there, so what follows is changes
            shop.start()
        if shop.ident and not shop.is_alive() and _through(report):
            stop.ask()

    def _through(report: ProgressReport) -> bool:
        return bool(shop.ident) and not shop.is_alive() and report.consumed >= sum(_ends(log, INPUTS).values())

    run_app(app, stop, to_end=False, close_timeout=_CLOSE_TIMEOUT, on_tick=tick)
    if shop.ident:
        shop.join()
    _raise_failures(worker, shop)
    return not interrupted


def _ends(log: Log, topics: Sequence[str]) -> dict[TopicPartition, int]:
    infos = log.describe(topics)
    return log.end_offsets([TopicPartition(name, n) for name, info in infos.items() for n in range(info.partitions)])


def _raise_failures(worker: ConnectWorker, shop: Shop) -> None:
    for name in worker.herder.connectors():
        failure = worker.herder.runner(name).failure()
        if failure is not None:
            raise _failed(name, failure)
    if shop.error is not None:
        raise shop.error


def _drain_sinks(worker: ConnectWorker, log: Log) -> None:
    """Wait until the sinks have written what the application has."""
    deadline = time.monotonic() + _SINKS_S
    for name, topic in SINKS.items():
        runner = worker.herder.runner(name)
        ends = _ends(log, [topic])
        while True:
            runner.hurry()
            positions = {TopicPartition(each.topic, each.partition): at for each, at in runner.positions().items()}
            if all(positions.get(partition, -1) >= end for partition, end in ends.items()):
                break
            failure = runner.failure()
            if failure is not None:
                raise _failed(name, failure)
            if time.monotonic() > deadline:
                raise ConnectError(
                    "CONNECTOR_FAILED", f"the connector {name!r} has not written all records after {_SINKS_S:g} s"
                )
            time.sleep(_LOOK_S)


def _failed(name: str, failure: Failure) -> ConnectError:
    reason = failure.error or failure.trace.strip().rpartition("\n")[2]
    error = ConnectError("CONNECTOR_FAILED", f"the connector {name!r} failed: {reason}")
    error.__cause__ = failure.error
    return error


class _Show:
    """Progress on a console: a line that changes on a terminal, else one every two seconds.

    Args:
        console: where to.
        shop: its counters.
        database: where the sales are.
    """

    def __init__(self, console: Console, shop: Shop, database: psycopg.Connection[Any]) -> None:
        self._console = console
        self._shop = shop
        self._database = database
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._last_line = 0.0

    def __enter__(self) -> _Show:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the line that changes."""
        if self._live is not None:
            self._live.stop()

    def tick(self, report: ProgressReport) -> None:
        """Show where the shop and the application are now."""
        now = time.monotonic()
        if self._live is None and (self._shop.now is None or now - self._last_line < _PLAIN_EVERY_S):
            return
        self._last_line = now
        line = self._line(report)
        if self._live is not None:
            self._live.update(Text(line))
        else:
            self._console.print(line, highlight=False, soft_wrap=True)

    def _line(self, report: ProgressReport) -> str:
        shop = self._shop
        if shop.now is None:
            return f"starting Spark ({report.state.name.lower()})"
        found = self._database.execute("SELECT count(*), coalesce(sum(orders), 0) FROM sales").fetchone()
        rows, orders = found or (0, 0)
        return (
            f"{shop.now:%a %H:%M}: {len(shop.accepted):,} orders accepted, {shop.moves:,} users moved, "
            f"{shop.prices:,} prices changed; {report.consumed:,} records read; sales in PostgreSQL: {rows:,} rows, "
            f"{orders:,} orders"
        )


def _show_proof(console: Console, shop: Shop, differences: Sequence[Difference], folder: Path) -> int:
    if all(each.equal for each in differences):
        sales, enriched = (each.rows for each in differences)
        console.print(
            "Compared with a batch computation of PostgreSQL over its own audit table: equal, to the row: "
            f"{sales:,} rows of sales in PostgreSQL and {enriched:,} enriched orders in Parquet, of "
            f"{len(shop.accepted):,} orders, while {shop.moves:,} users moved and {shop.prices:,} prices changed; "
            f"{shop.repeats:,} orders were sent twice and count once.",
            style="green",
            highlight=False,
            soft_wrap=True,
        )
    else:
        console.print("NOT equal to a batch computation of PostgreSQL over its audit table:", style="bold red")
        for line in (line for each in differences if not each.equal for line in each.lines()):
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    console.print(
        f"Look around: {folder / 'enriched'}; hayase topics consume users --from-beginning --max 5 --log-dir "
        f"{folder / 'log'}",
        highlight=False,
        soft_wrap=True,
    )
    return 0 if all(each.equal for each in differences) else 1
