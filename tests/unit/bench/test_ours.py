"""Each scenario's topology gives what the batch computation expects: here few records, in the test driver."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import pytest
from bench.avro import avro_records
from bench.check import difference, expected_result, produced_result
from bench.data import FIRST_TIMESTAMP_MS, LATE_MS, make_orders, make_products, make_users
from bench.ours import sql
from bench.scenarios import SCENARIOS, Scenario

from hayase import Serdes, StreamsBuilder, Topology
from hayase.testing import TopologyTestDriver

USERS = 10
ORDERS = 60
PRODUCTS = 20
ONE_OF_EACH = list({(scenario.application, scenario.sql): name for name, scenario in SCENARIOS.items()}.values())


def topology_of(scenario: Scenario, folder: Path) -> Topology:
    """What our side of a scenario runs."""
    if scenario.sql:
        return sql.topology(scenario.application, {"input": "orders", "table": "table", "output": "out"}, folder)
    builder = StreamsBuilder()
    module = importlib.import_module(f"bench.ours.{scenario.application}")
    module.build(builder, argparse.Namespace(input="orders", table="table", output="out"))
    return builder.build()


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_topology_of_a_scenario_gives_the_expected_result(name: str, tmp_path: Path) -> None:
    scenario, orders, users = SCENARIOS[name], make_orders(ORDERS, users=USERS, products=PRODUCTS), make_users(USERS)
    products = make_products(PRODUCTS, ORDERS)
    table = {scenario.input.table: users, scenario.input.products: products}.get(scenario.table_read)
    with TopologyTestDriver(topology_of(scenario, tmp_path)) as driver:
        records = avro_records(orders) if scenario.input.value_format == "avro" else orders.records()
        rows: list[tuple[str, str, str | bytes, int]] = [("orders", *record) for record in records]
        if scenario.table_read is not None and table is not None:
            rows += [("table", *record) for record in table.records()]
        for topic, key, value, timestamp_ms in sorted(rows, key=lambda row: row[3] >= FIRST_TIMESTAMP_MS - LATE_MS):
            data = value.encode() if isinstance(value, str) else value
            driver.pipe(topic, key.encode(), data, timestamp_ms, [])
        found = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes()).read_key_values_to_list()
    assert difference(expected_result(scenario, orders, users, products), produced_result(scenario, found)) is None
