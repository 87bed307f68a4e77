"""The check of the demo: equal where the results are right, and a readable difference where they are not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rich.console import Console
from tests.unit.cli.demo_run import DemoRun, run_sql_demo

from hayase.cli.demo.check import Report, check_tables
from hayase.cli.demo.display import show_report
from hayase.cli.demo.topics import DEAD_LETTERS

pytestmark = pytest.mark.long


def _by_name(report: Report) -> dict[str, bool]:
    return {comparison.name: comparison.equal for comparison in report.comparisons}


def _text(report: Report) -> str:
    console = Console(record=True, width=200, quiet=False, file=None)
    with console.capture() as captured:
        show_report(console, report)
    return captured.get()


def test_the_example_and_the_batch_computation_come_to_the_same_results(demo: DemoRun) -> None:
    report = check_tables(demo.tables, demo.store, demo.late)
    assert report.equal
    assert all(comparison.rows > 0 for comparison in report.comparisons)
    assert report.unknown_products > 0
    assert "equal, to the record" in _text(report)


def test_the_job_in_sql_comes_to_the_same_results() -> None:
    demo = run_sql_demo(4_000)
    report = check_tables(demo.tables, demo.store, demo.late)
    assert report.equal, _text(report)
    assert all(comparison.rows > 0 for comparison in report.comparisons)


def test_a_sum_that_is_off_by_one_cent_in_the_topic_is_shown(demo: DemoRun) -> None:
    sales = demo.tables["sales"]
    values = sales["value"].to_pylist()
    values[-1] = values[-1].replace(b'"revenue":', b'"revenue":1')
    tampered = sales.set_column(sales.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
    report = check_tables({**demo.tables, "sales": tampered}, demo.store, demo.late)
    assert _by_name(report) == {
        "enriched orders": True,
        "topic sales": False,
        "store sales": True,
        "dead letters": True,
        "late orders": True,
    }
    text = _text(report)
    assert "NOT equal" in text
    assert "1 rows missing (-), 1 unexpected (+)" in text
    assert "- product=" in text and "+ product=" in text


def test_a_row_that_the_store_lacks_is_missing(demo: DemoRun) -> None:
    report = check_tables(demo.tables, demo.store[1:], demo.late)
    store = next(comparison for comparison in report.comparisons if comparison.name == "store sales")
    assert (store.missing, store.unexpected) == (1, 0)


def test_an_enriched_order_that_was_written_twice_is_unexpected(demo: DemoRun) -> None:
    enriched = demo.tables["enriched-orders"]
    tables = {**demo.tables, "enriched-orders": pa.concat_tables([enriched, enriched.slice(0, 1)])}
    report = check_tables(tables, demo.store, demo.late)
    orders = next(comparison for comparison in report.comparisons if comparison.name == "enriched orders")
    assert (orders.missing, orders.unexpected) == (0, 1)


def test_a_lost_dead_letter_and_a_wrong_count_of_late_orders_are_seen(demo: DemoRun) -> None:
    tables = {**demo.tables, DEAD_LETTERS: demo.tables[DEAD_LETTERS].slice(1)}
    report = check_tables(tables, demo.store, demo.late + 1)
    assert _by_name(report)["dead letters"] is False
    assert _by_name(report)["late orders"] is False


def test_no_whole_card_number_leaves_the_application(demo: DemoRun) -> None:
    cards = pc.match_substring_regex(demo.tables["enriched-orders"]["value"].cast(pa.string()), '"card":"[^"]*[0-9]{5}')
    assert pc.sum(cards).as_py() == 0
