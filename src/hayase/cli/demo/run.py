"""The demo from start to end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from hayase.app.app import StreamsApp
from hayase.app.report import ProgressReport
from hayase.app.reset import reset_application
from hayase.app.states import State
from hayase.app.stop_request import StopRequest
from hayase.cli.demo.check import check
from hayase.cli.demo.display import Display, SalesRow, sales_table, show_report
from hayase.cli.demo.example import example_file, load_example
from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.generator import Shop
from hayase.cli.demo.topics import DEAD_LETTERS, INPUTS, PARTITIONS, fill_topics, make_topics
from hayase.cli.lifecycle import run_app
from hayase.cli.options import read_settings
from hayase.cli.quiet import stderr_to
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log

APPLICATION_ID = "hayase-demo"
_CLOSE_TIMEOUT = timedelta(seconds=60)
_LIVE_BATCH = 5
_LIVE_PAUSE_S = 0.25
_ALL_TIMES = (0, 2**62)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the demo was asked for.

    Attributes:
        orders: how many orders there are to begin with.
        folder: where topics and state go; emptied before.
        kafka: address of a broker, or `None` for the embedded log.
        keep_running: go on with a trickle of orders until it is stopped.
        command_config: file with settings of Kafka's clients.
    """

    orders: int
    folder: Path
    kafka: str | None
    keep_running: bool
    command_config: Path | None = None


def run_demo(options: DemoOptions, console: Console) -> int:
    """Run it; the exit code: 0 if the results are equal to the batch computation's, 1 if not, 130 if interrupted.

    Raises:
        HayaseError: it could not run.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(options.folder))
        app = StreamsApp(load_example(), _settings(options, folder))
        log = open_log(log_config(app.config))
        stack.callback(log.close)
        place = f"Kafka at {options.kafka}" if options.kafka else f"the embedded log in {folder / 'log'}"
        console.print(f"application: {example_file()}", highlight=False, soft_wrap=True)
        console.print(f"topics: {', '.join(INPUTS)} on {place}", highlight=False, soft_wrap=True)
        reset_application(app.config, log)
        shop = Shop(options.orders)
        fill_log(console, log, shop)
        errors = folder / "stderr.log"
        try:
            with stderr_to(errors):
                last = _process(console, options, app, log, shop)
        except HayaseError:
            console.print(f"what Spark said is in {errors}", highlight=False, soft_wrap=True)
            raise
        if last.consumed < _input_records(log):
            console.print("stopped before the end of the input; nothing was compared")
            return 130
        rows = sales_rows(app)
        console.print(sales_table(rows, windows=2, top=8))
        report = check(log, rows, last.late)
        show_report(console, report)
        say_what_next(console, options, folder)
        return 0 if report.equal else 1


def _settings(options: DemoOptions, folder: Path) -> StreamsConfig:
    settings: dict[str, object] = {
        "application.id": APPLICATION_ID,
        "log.dir": folder / "log",
        "state.dir": folder / "state",
        "deserialization.exception.handler": "dead_letter",
        "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
        # Small enough for something to be seen on the way.
        "max.records.per.epoch": 100_000,
    }
    if options.kafka is None:
        return StreamsConfig(settings)
    return StreamsConfig(
        {**read_settings(None, options.command_config), **settings, "bootstrap.servers": options.kafka}
    )


def fill_log(console: Console, log: Log, shop: Shop, partitions: Mapping[str, int] = PARTITIONS) -> None:
    """Make the topics, with so many partitions, and write the input."""
    make_topics(log, partitions)
    writer = log.writer()
    try:
        with console.status("writing users, products and orders"):
            fill_topics(writer, shop, lambda _: None)
    finally:
        writer.close()
    console.print(f"wrote {shop.orders:,} orders, with the users and products they need", highlight=False)


def _process(console: Console, options: DemoOptions, app: StreamsApp, log: Log, shop: Shop) -> ProgressReport:
    """Run the application to the end of the input, or until it is stopped and what is there is processed."""
    reports: list[ProgressReport] = [app.progress()]
    total = None if options.keep_running else _input_records(log)
    rows = (lambda: _live_rows(app)) if options.keep_running else None
    with StopRequest() as stop, Display(console, total, rows) as display:
        trickle = _Trickle(log, shop, stop) if options.keep_running else None

        def tick(report: ProgressReport) -> None:
            reports[0] = report
            display.tick(report)
            if trickle is not None and report.lag_records == 0:
                trickle.begin()

        if options.keep_running:
            console.print("more orders keep coming; Ctrl-C stops, and compares")

        def through(report: ProgressReport) -> bool:
            """What was written is processed, so that it can be compared.

            Or nothing is, because Spark is still starting.
            """
            if trickle is None or report.state is not State.RUNNING:
                return True
            trickle.end()
            return report.consumed >= _input_records(log)

        run_app(app, stop, to_end=trickle is None, close_timeout=_CLOSE_TIMEOUT, on_tick=tick, may_close=through)
    return reports[0]


def _input_records(log: Log) -> int:
    infos = log.describe(INPUTS)
    partitions = [TopicPartition(name, number) for name, info in infos.items() for number in range(info.partitions)]
    starts, ends = log.start_offsets(partitions), log.end_offsets(partitions)
    return sum(ends[partition] - starts[partition] for partition in partitions)


def sales_rows(app: StreamsApp) -> list[SalesRow]:
    """All rows of the store `sales`."""
    return [
        {**row.key.key, "window_start_ms": row.key.window.start_ms, **row.value, "timestamp_ms": row.timestamp_ms}
        for row in app.store("sales").fetch_all(*_ALL_TIMES)
    ]


def _live_rows(app: StreamsApp) -> list[SalesRow]:
    try:
        return sales_rows(app)
    except HayaseError:  # no epoch is complete yet
        return []


class _Trickle(threading.Thread):
    """Writes a few orders at a time, once begun, until there is a request to stop."""

    def __init__(self, log: Log, shop: Shop, stop: StopRequest) -> None:
        super().__init__(name="demo-orders", daemon=True)
        self._log = log
        self._shop = shop
        self._request = stop
        self._begun = False
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin, if it has not; raises what ended it."""
        if self._error is not None:
            raise self._error
        if not self._begun:
            self._begun = True
            self.start()

    def end(self) -> None:
        """Wait until it has written its last."""
        if self._begun:
            self.join()

    def run(self) -> None:
        number = self._shop.orders
        try:
            writer = self._log.writer()
            try:
                while not self._request.wait(_LIVE_PAUSE_S):
                    writer.append([self._shop.orders_from(number, _LIVE_BATCH).batch()])
                    number += _LIVE_BATCH
            finally:
                writer.close()
        except Exception as error:  # raised again by the main thread
            self._error = error


def say_what_next(console: Console, options: DemoOptions, folder: Path) -> None:
    """A command that shows the results."""
    where = f"--bootstrap-servers {options.kafka}" if options.kafka else f"--log-dir {folder / 'log'}"
    if options.kafka and options.command_config is not None:
        where += f" --command-config {options.command_config}"
    console.print(
        f"Look around: hayase topics consume sales --from-beginning --max 5 {where}", highlight=False, soft_wrap=True
    )
