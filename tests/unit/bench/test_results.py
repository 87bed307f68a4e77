"""Expected results, their comparison, and what is reported."""

from __future__ import annotations

import json

from bench.check import difference, expected_result
from bench.data import make_orders
from bench.measure import Run
from bench.report import Measured, json_line
from bench.scenarios import SCENARIOS, OrderLine, Totals


def _run(*, records_per_s: float, cpu_s: float) -> Run:
    return Run(
        startup_s=1.0,
        steady_s=2.0,
        steady_records=int(records_per_s * 2),
        total_s=3.0,
        cpu_s=cpu_s,
        steady_cpu_s=cpu_s / 2,
        peak_pss_mb=100.0,
        peak_anonymous_mb=90.0,
    )


def test_orders_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    first = make_orders(1_000).to_arrow()
    assert first.equals(make_orders(1_000).to_arrow())
    assert not first.equals(make_orders(1_000, seed=43).to_arrow())


def test_the_expected_counts_cover_every_order() -> None:
    orders = make_orders(5_000)
    for name in ("count_by_key", "rekey_count"):
        totals = list(expected_result(SCENARIOS[name], orders).values())
        assert sum(value.n for value in totals) == 5_000
        assert sum(value.total for value in totals) == int(orders.amount.sum())


def test_the_expected_filter_result_keeps_each_large_order_once() -> None:
    orders = make_orders(5_000)
    expected = expected_result(SCENARIOS["filter"], orders)
    assert set(expected.values()) == {1}
    assert len(expected) == int((orders.amount > 5_000).sum())
    assert all(key == line.user and line.amount > 5_000 for key, line in expected)


def test_a_wrong_value_a_missing_key_and_a_record_too_many_are_differences() -> None:
    right = {"a": Totals(1, 10), "b": Totals(2, 20)}
    assert difference(right, dict(right)) is None
    assert "1 of 2" in str(difference(right, {**right, "b": Totals(2, 21)}))
    assert "1 of 2" in str(difference(right, {"a": Totals(1, 10)}))
    line = ("u", OrderLine(1, "u", "p", 5))
    assert difference({line: 1}, {line: 2}) is not None


def test_ratios_are_per_pair_and_above_one_when_we_are_better() -> None:
    measured = Measured(
        SCENARIOS["filter"],
        "at_least_once",
        ours=[_run(records_per_s=200, cpu_s=10), _run(records_per_s=300, cpu_s=5)],
        peer=[_run(records_per_s=100, cpu_s=20), _run(records_per_s=100, cpu_s=20)],
    )
    line = json.loads(json_line(measured))
    assert list(line) == ["scenario", "ours", "peer", "ratio_throughput", "ratio_cpu"]
    assert line["ratio_throughput"] == {"median": 2.5, "min": 2.0, "max": 3.0}
    assert line["ratio_cpu"] == {"median": 3.0, "min": 2.0, "max": 4.0}
    assert line["ours"]["guarantee"] == "at_least_once"
