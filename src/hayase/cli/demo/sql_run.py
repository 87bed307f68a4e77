"""The demo in SQL: `examples/ecommerce.sql` on the input of the demo, with the same table and the same check."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from hayase.app.report import ProgressReport
from hayase.app.sql_program import SqlProgram, check_script_file
from hayase.app.stop_request import StopRequest
from hayase.cli.demo.check import check
from hayase.cli.demo.display import SalesRow, sales_table, show_report
from hayase.cli.demo.example import example_file
from hayase.cli.demo.folder import demo_folder
from hayase.cli.demo.generator import Shop
from hayase.cli.demo.run import DemoOptions, fill_log, say_what_next
from hayase.cli.demo.topics import DEAD_LETTERS, INPUTS, SQL_PARTITIONS
from hayase.cli.lifecycle import run_runtime_to_end
from hayase.cli.options import read_settings
from hayase.cli.progress import run_text
from hayase.cli.quiet import stderr_to
from hayase.core.config import StreamsConfig
from hayase.core.errors import HayaseError
from hayase.core.records import Windowed
from hayase.log.config import log_config
from hayase.log.open import open_log

APPLICATION_ID = "hayase-demo-sql"
SALES_STORE = "Aggregate-Aggregate-Materialize"
_SALES = "CTAS_SALES"
_RESULTS = ("orders", "quantity", "revenue")
_ALL_TIMES = (0, 2**62)


def run_sql_demo(options: DemoOptions, console: Console) -> int:
    """Run it; the exit code: 0 if the results are equal to the batch computation's, 1 if not, 130 if interrupted.

    Raises:
        HayaseError: it could not run.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(demo_folder(options.folder))
        settings = _settings(options, folder)
        script = example_file("ecommerce.sql")
        log = open_log(log_config(StreamsConfig({"application.id": APPLICATION_ID, **_of_log(options, folder)})))
        stack.callback(log.close)
        place = f"Kafka at {options.kafka}" if options.kafka else f"the embedded log in {folder / 'log'}"
        console.print(f"script: {script}", highlight=False, soft_wrap=True)
        console.print(f"topics: {', '.join(INPUTS)} on {place}", highlight=False, soft_wrap=True)
        fill_log(console, log, Shop(options.orders), SQL_PARTITIONS)
        program = stack.enter_context(SqlProgram(check_script_file(script), settings))
        program.reset()
        reports = _process(console, program, folder)
        if reports is None:
            console.print("stopped before the end of the input; nothing was compared")
            return 130
        rows = _sales_rows(program)
        console.print(sales_table(rows, windows=2, top=8))
        report = check(log, rows, sum(each.late for each in reports.values()))
        show_report(console, report)
        say_what_next(console, options, folder)
        return 0 if report.equal else 1


def _of_log(options: DemoOptions, folder: Path) -> dict[str, object]:
    settings: dict[str, object] = {"log.dir": folder / "log", "state.dir": folder / "state"}
    if options.kafka is None:
        return settings
    return {**read_settings(None, options.command_config), **settings, "bootstrap.servers": options.kafka}


def _settings(options: DemoOptions, folder: Path) -> dict[str, object]:
    return {
        **_of_log(options, folder),
        "application.id": APPLICATION_ID,
        "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
    }


def _process(console: Console, program: SqlProgram, folder: Path) -> Mapping[str, ProgressReport] | None:
    """Run the queries one after the other to the end of their input; `None` if they were stopped before."""
    for name, query in program.queries.items():
        shown = f"query {name}: {', '.join(query.source_topics)} -> {query.sink_topic}"
        console.print(shown, highlight=False, soft_wrap=True)
    errors = folder / "stderr.log"
    with StopRequest() as stop:
        try:
            with stderr_to(errors), console.status("processing"):
                reports = run_runtime_to_end(program.run_to_end, program.runtime, stop)
        except HayaseError:
            console.print(f"what Spark said is in {errors}", highlight=False, soft_wrap=True)
            raise
        if stop.asked or not reports:
            return None
    for name, each in reports.items():
        console.print(f"{name}: {run_text(each)}", highlight=False, soft_wrap=True)
    return reports


def _sales_rows(program: SqlProgram) -> list[SalesRow]:
    """All rows of the table `sales`, from the store of its aggregation."""
    rows = program.query(_SALES).store(SALES_STORE).fetch_all(*_ALL_TIMES)
    return [sales_row(row.key, row.value, row.timestamp_ms) for row in rows]


def sales_row(key: Windowed[dict[str, str]], states: Mapping[str, object], timestamp_ms: int | None) -> SalesRow:
    """A row of that store: a key of two columns in a window, and the state of each aggregate."""
    results = dict(zip(_RESULTS, states.values(), strict=True))
    return {**key.key, "window_start_ms": key.window.start_ms, **results, "timestamp_ms": timestamp_ms}
