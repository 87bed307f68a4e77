"""Each scenario's topology gives what the batch computation expects: here few records, in the test driver."""

from __future__ import annotations

import argparse
import importlib

import pytest
from bench.check import difference, expected_result, produced_result
from bench.data import make_orders, make_users
from bench.scenarios import SCENARIOS

from hayase import Serdes, StreamsBuilder
from hayase.testing import TopologyTestDriver

USERS = 10
ORDERS = 60
ONE_OF_EACH = list({scenario.application: name for name, scenario in SCENARIOS.items()}.values())


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_topology_of_a_scenario_gives_the_expected_result(name: str) -> None:
    scenario, orders, users = SCENARIOS[name], make_orders(ORDERS, users=USERS), make_users(USERS)
    builder = StreamsBuilder()
    module = importlib.import_module(f"bench.ours.{scenario.application}")
    module.build(builder, argparse.Namespace(input="orders", table="users", output="out"))
    with TopologyTestDriver(builder.build()) as driver:
        if scenario.reads_table:
            for key, value, timestamp_ms in users.records():
                driver.pipe("users", key.encode(), value.encode(), timestamp_ms, [])
        for key, value, timestamp_ms in orders.records():
            driver.pipe("orders", key.encode(), value.encode(), timestamp_ms, [])
        found = driver.create_output_topic("out", Serdes.bytes(), Serdes.bytes()).read_key_values_to_list()
    assert difference(expected_result(scenario, orders, users), produced_result(scenario, found)) is None
