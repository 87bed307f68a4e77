"""What bundles report, under Kafka Streams' names."""

from __future__ import annotations

from hayase.core import metrics as m
from hayase.core.metrics_registry import MetricsRegistry
from hayase.runtime.driver.streams_metrics import SummaryMetrics
from hayase.task.summary import BundleSummary

COUNTS = [
    m.Count(m.PROCESSED, "0_1", "SOURCE", 100),
    m.Count(m.DROPPED_RECORDS, "0_1", "AGG", 3),
    m.Count(m.LATE_RECORDS, "0_1", "AGG", 2),
    m.Count(m.RECORDS_CONSUMED, "0_1", "in", 101),
    m.Count(m.ENTRIES, "0_1", "totals", 7),
    m.Count(m.RESTORED, "0_1", "", 50),
    m.Count(m.SUPPRESSION_EMITTED, "0_1", "SUPPRESS", 4),
    m.Count(m.FINAL_EMITTED, "0_1", "AGG", 6),
    m.Count(m.user_metric("orders", "paid", {"shop": "north"}), "0_1", "eu", 9),
]
MEASURES = [
    m.Measure(m.E2E_LATENCY, "0_1", "SOURCE", 100, 500.0, 1.0, 9.0),
    m.Measure(m.LATENESS, "0_1", "", 100, 200.0, 0.0, 8.0),
    m.Measure(m.PROCESS_LATENCY, "0_1", "", 1, 12.0, 12.0, 12.0),
    m.Measure(m.PUNCTUATE_LATENCY, "0_1", "", 4, 20.0, 1.0, 9.0),
    m.Measure(m.SUPPRESSION_ROWS, "0_1", "held", 1, 30.0, 30.0, 30.0),
    m.Measure(m.user_metric("orders", "paid-latency", {"shop": "north"}), "0_1", "eu", 9, 18.0, 1.0, 3.0),
]
SECONDS = {"process": 0.2, "delta": 0.05, "apply": 0.05, "publish": 0.1}


def shown(level: str) -> dict[tuple[str, str], tuple[dict[str, str], float | str]]:
    registry = MetricsRegistry(lambda: 0)
    reported = SummaryMetrics(registry, {"0-1": 1}, "shop", level)
    summary = BundleSummary("0-1", 3, False, True, COUNTS, SECONDS, MEASURES)
    reported.add(BundleSummary.from_bytes(summary.to_bytes()))
    return {(name.group, name.name): (dict(name.tags), value) for name, value in registry.snapshot().items()}


def test_threads_tasks_nodes_topics_and_stores_have_kafka_streams_groups_and_tags() -> None:
    found = shown("INFO")
    thread = {"thread-id": "shop-StreamThread-2"}
    task = {**thread, "task-id": "0_1"}
    assert found[("stream-thread-metrics", "process-total")] == (thread, 100)
    assert found[("stream-thread-metrics", "process-latency-avg")] == (thread, 200.0)
    assert found[("stream-thread-metrics", "commit-latency-max")] == (thread, 200.0)
    assert found[("stream-thread-metrics", "commit-total")] == (thread, 1)
    assert found[("stream-task-metrics", "dropped-records-total")] == (task, 3)
    assert found[("stream-task-metrics", "restore-total")] == (task, 50)
    node = {**task, "processor-node-id": "SOURCE"}
    assert found[("stream-processor-node-metrics", "record-e2e-latency-avg")] == (node, 5.0)
    assert found[("stream-processor-node-metrics", "record-e2e-latency-min")] == (node, 1.0)
    assert found[("stream-processor-node-metrics", "late-records-total")] == ({**task, "processor-node-id": "AGG"}, 2)
    assert found[("stream-topic-metrics", "records-consumed-total")] == ({**task, "topic-name": "in"}, 101)
    assert found[("stream-state-metrics", "num-keys")] == ({**task, "lmdb-state-id": "totals"}, 7)


def test_what_threads_do_is_counted_from_0_before_the_first_epoch() -> None:
    registry = MetricsRegistry(lambda: 0)
    SummaryMetrics(registry, {"0-0": 0, "0-1": 1, "1-0": 0}, "shop", "INFO")
    assert {(name.name, name.tag("thread-id")): value for name, value in registry.snapshot().items()} == {
        (name, f"shop-StreamThread-{number}"): 0
        for name in ("process-total", "process-rate", "commit-total", "commit-rate")
        for number in (1, 2)
    }


def test_lateness_and_what_single_tasks_process_is_recorded_from_debug_on() -> None:
    debug = {
        ("stream-task-metrics", "process-total"),
        ("stream-task-metrics", "process-latency-avg"),
        ("stream-task-metrics", "record-lateness-avg"),
        ("stream-processor-node-metrics", "process-total"),
    }
    assert not debug & shown("INFO").keys()
    assert debug <= shown("DEBUG").keys()
    assert debug <= shown("TRACE").keys()


def test_a_measurement_may_say_how_often_it_was_made_too() -> None:
    found = shown("DEBUG")
    assert found[("stream-thread-metrics", "punctuate-total")] == ({"thread-id": "shop-StreamThread-2"}, 4)
    assert found[("stream-task-metrics", "punctuate-total")][1] == 4
    assert found[("stream-task-metrics", "punctuate-latency-avg")][1] == 5.0


def test_what_a_suppressed_table_holds_and_what_was_sent_at_last_is_recorded_from_debug_on() -> None:
    found = shown("DEBUG")
    assert found[("stream-processor-node-metrics", "suppression-emit-total")][1] == 4
    assert found[("stream-processor-node-metrics", "window-aggregate-final-emit-total")][1] == 6
    assert found[("stream-state-metrics", "suppression-buffer-count-max")][0]["lmdb-state-id"] == "held"
    assert ("stream-state-metrics", "suppression-buffer-count-max") not in shown("INFO")


def test_metrics_of_users_are_in_the_group_of_their_scope_with_entity_and_tags() -> None:
    found = shown("INFO")
    tags = {"thread-id": "shop-StreamThread-2", "task-id": "0_1", "orders-id": "eu", "shop": "north"}
    assert found[("stream-orders-metrics", "paid-total")] == (tags, 9)
    assert found[("stream-orders-metrics", "paid-latency-avg")] == (tags, 2.0)
    assert found[("stream-orders-metrics", "paid-latency-max")] == (tags, 3.0)
