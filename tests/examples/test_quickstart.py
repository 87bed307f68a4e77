"""The quick start example does what the README says, as a program and as a topology."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hayase.cli.load import load
from hayase.serde import Serdes
from hayase.testing import TopologyTestDriver

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.py"


@pytest.mark.long
def test_the_program_prints_each_update_and_the_row_of_the_store() -> None:
    done = subprocess.run([sys.executable, QUICKSTART], capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["ada {'purchases': 1, 'cents': 1250}", "ada {'purchases': 2, 'cents': 1550}"]
    assert "{'purchases': 2, 'cents': 1550}" in lines[2]


def test_the_topology_counts_per_customer_and_leaves_out_what_costs_nothing() -> None:
    topology = load(f"{QUICKSTART}:topology").topology
    with TopologyTestDriver(topology) as driver:
        source = driver.create_input_topic("purchases", Serdes.string(), Serdes.json())
        sink = driver.create_output_topic("spending", Serdes.string(), Serdes.json())
        for customer, cents in (("ada", 100), ("ben", 5), ("ada", 0), ("ada", 1)):
            source.pipe_input(customer, {"item": "thing", "cents": cents})
        assert sink.read_key_values_to_list() == [
            ("ada", {"purchases": 1, "cents": 100}),
            ("ben", {"purchases": 1, "cents": 5}),
            ("ada", {"purchases": 2, "cents": 101}),
        ]


def test_both_examples_are_short_enough_to_read_at_a_glance() -> None:
    for name, most in (("quickstart.py", 30), ("ecommerce.py", 45)):
        text = (ROOT / "examples" / name).read_text().split('"""', 2)[2]
        code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        assert len(code) <= most, name
