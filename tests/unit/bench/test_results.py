"""Expected results, their comparison, and what is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from bench.check import difference, expected_result, produced_result
from bench.data import FIRST_TIMESTAMP_MS, LATE_MS, make_orders, make_users
from bench.embedded_topics import EmbeddedTopics
from bench.estimate import Estimate
from bench.measure import Run
from bench.report import Measured, exactly_once_overheads, json_line
from bench.run import Options
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


def test_where_a_side_has_no_steady_part_there_is_no_steady_ratio() -> None:
    steady, whole = _run(records_per_s=200, cpu_s=10), replace(_run(records_per_s=2, cpu_s=20), whole=True)
    for ours, peer in ((steady, whole), (whole, steady), (whole, whole)):
        line = json.loads(json_line(Measured(SCENARIOS["filter"], "at_least_once", ours=[ours], peer=[peer])))
        assert line["ratio_throughput"] is None
        assert line["ratio_cpu"] is not None


def test_what_was_not_measured_is_null_and_an_error_is_told() -> None:
    runs = [_run(records_per_s=200, cpu_s=10)]
    line = json.loads(json_line(Measured(SCENARIOS["embedded"], "exactly_once_v2", ours=runs, peer=[]), "it burnt"))
    assert line["ours"]["runs"] == 1
    assert line["peer"] is line["ratio_throughput"] is line["ratio_cpu"] is None
    assert line["error"] == "it burnt"


def test_the_cost_of_exactly_once_is_what_throughput_it_takes() -> None:
    scenario = SCENARIOS["embedded"]
    costs = exactly_once_overheads(
        [
            Measured(scenario, "exactly_once_v2", ours=[_run(records_per_s=90, cpu_s=9)], peer=[]),
            Measured(scenario, "at_least_once", ours=[_run(records_per_s=100, cpu_s=10)], peer=[]),
        ]
    )
    assert costs == {"embedded": "ours +10.0% throughput, +0.0% CPU"}


def test_orders_are_late_by_less_than_the_grace_of_windows() -> None:
    late_ms = FIRST_TIMESTAMP_MS + np.arange(50_000) - make_orders(50_000).timestamp_ms
    assert late_ms.min() == 0
    assert 0 < late_ms.max() <= LATE_MS < 60_000
    assert 0.03 < (late_ms > 0).mean() < 0.07


def test_windows_cover_every_order_once_or_six_times() -> None:
    orders = make_orders(5_000, users=10)
    for name, windows in (("tumbling", 1), ("hopping", 6)):
        totals = expected_result(SCENARIOS[name], orders)
        assert sum(value.n for value in totals.values()) == windows * 5_000
        assert all(start % (60_000 // windows) == 0 for _, start in totals)


def test_every_order_finds_its_user() -> None:
    orders, users = make_orders(5_000, users=100), make_users(100)
    expected = expected_result(SCENARIOS["stream_table_join"], orders, users)
    assert sum(expected.values()) == 5_000
    rows = {name: (city, tier) for name, _, city, tier in zip(*users.to_arrow().to_pydict().values(), strict=True)}
    assert all(rows[key] == (value.city, value.tier) for key, value in expected)


def test_a_table_is_the_last_value_of_each_key_and_windowed_keys_have_their_start() -> None:
    key = b"ada" + (60_000).to_bytes(8, "big")
    records = [(key, b'{"n":1,"total":5}'), (key, b'{"n":2,"total":9}')]
    assert produced_result(SCENARIOS["tumbling"], records) == {("ada", 60_000): Totals(2, 9)}
    assert produced_result(SCENARIOS["count_by_key"], [(b"ada", b'{"n":1,"total":5}'), (b"ada", None)]) == {}


def test_topics_of_the_embedded_log_are_read_as_they_were_loaded(tmp_path: Path) -> None:
    topics = EmbeddedTopics(tmp_path)
    topics.create("orders", 2)
    orders = make_orders(500)
    topics.load("orders", orders.records())
    progress = topics.progress("app", "orders", "orders")
    assert (progress.input_end, progress.processed(), progress.output_end()) == (500, 0, 500)
    found = {(key.decode(), (value or b"").decode()) for key, value in topics.read("orders")}
    assert found == {(key, value) for key, value, _ in orders.records()}
    topics.delete("orders")
    topics.close()


def test_what_is_done_is_no_longer_estimated() -> None:
    scenarios = [SCENARIOS["filter"], SCENARIOS["embedded"]]
    options = Options(scenarios, ("at_least_once",), ("ours", "peer"), 1, 100_000, 4, 600, 42)
    estimate = Estimate(options)
    before_s = estimate.left_s
    estimate.done(scenarios[0], "at_least_once")
    assert 0 <= estimate.left_s < before_s
    estimate.done(scenarios[1], "at_least_once")
    assert estimate.left_s == 0
