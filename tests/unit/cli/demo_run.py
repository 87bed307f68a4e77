"""The demo's application in this process, without Spark, and its topics as the check reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hayase.cli.demo.example import example_file, load_example
from hayase.cli.demo.generator import Records, Shop
from hayase.cli.demo.sql_run import SALES_STORE, sales_row
from hayase.cli.demo.topics import DEAD_LETTERS
from hayase.core.metrics import LATE_RECORDS
from hayase.sql.engine import SqlEngine
from hayase.task.input_merge import merge_order
from hayase.testing.driver import TopologyTestDriver

FAILURES = {
    "processing.form": "rows",
    "deserialization.exception.handler": "dead_letter",
    "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
}


@dataclass(frozen=True)
class DemoRun:
    """Input and output topics, the rows of the store, and how many records were late."""

    tables: dict[str, pa.Table]
    store: list[Mapping[str, Any]]
    late: int


def run_demo(orders: int) -> DemoRun:
    """Generate, and run the example over it in the order in which a task would."""
    shop = Shop(orders)
    inputs = [shop.users(), shop.products(), shop.orders_from(0, orders)]
    with TopologyTestDriver(load_example(), FAILURES) as driver:
        for queue, row in zip(*merge_order([np.array(each.timestamps_ms) for each in inputs]), strict=True):
            records = inputs[queue]
            driver.pipe(records.topic, records.keys[row], records.values[row], records.timestamps_ms[row], ())
        tables = {records.topic: _table(records) for records in inputs}
        for topic in ("enriched-orders", "sales", DEAD_LETTERS):
            found = driver.output_queue(topic)
            tables[topic] = _table(
                Records(topic, [r.key for r in found], [r.value for r in found], [r.timestamp_ms for r in found])
            )
        store = driver.store("sales")
        rows = [
            {**key.key, "window_start_ms": key.window.start_ms, **found.value, "timestamp_ms": found.timestamp_ms}
            for key, found in store.all()
        ]
        return DemoRun(tables, rows, driver.metrics.total(LATE_RECORDS))


def run_sql_demo(orders: int) -> DemoRun:
    """The same with the job in SQL: its queries one after the other."""
    shop = Shop(orders)
    topics = {each.topic: each for each in (shop.users(), shop.products(), shop.orders_from(0, orders))}
    engine = SqlEngine()
    engine.script(example_file("ecommerce.sql").read_text())
    late = 0
    store: list[Mapping[str, Any]] = []
    for query in engine.queries.values():
        inputs = [topics[topic] for topic in query.source_topics]
        with TopologyTestDriver(query.topology, FAILURES) as driver:
            for queue, row in zip(*merge_order([np.array(each.timestamps_ms) for each in inputs]), strict=True):
                records = inputs[queue]
                driver.pipe(records.topic, records.keys[row], records.values[row], records.timestamps_ms[row], ())
            for topic in (query.sink_topic or "", DEAD_LETTERS):
                found = driver.output_queue(topic)
                topics.setdefault(topic, Records(topic, [], [], []))
                topics[topic].keys.extend(each.key for each in found)
                topics[topic].values.extend(each.value for each in found)
                topics[topic].timestamps_ms.extend(each.timestamp_ms for each in found)
            late += int(driver.metrics.total(LATE_RECORDS))
            if query.sink == "SALES":
                rows = driver.store(SALES_STORE).all()
                store = [sales_row(key, found.value, found.timestamp_ms) for key, found in rows]
    return DemoRun({topic: _table(records) for topic, records in topics.items()}, store, late)


def _table(records: Records) -> pa.Table:
    return pa.table(
        {
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "timestamp_ms": pa.array(records.timestamps_ms, pa.int64()),
            "key": pa.array(records.keys, pa.binary()),
            "value": pa.array(records.values, pa.binary()),
        }
    )
