"""How far a running query is: counters of all bundles, added up as epochs complete."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from hayase.core.decoding import decode_json
from hayase.core.metrics import ENTRIES, RECORDS_CONSUMED, Metrics
from hayase.runtime.driver.query import SUMMARIES
from hayase.runtime.wire.span_protocol import EpochReport
from hayase.task.summary import BundleSummary


@dataclass(frozen=True, slots=True)
class EpochTiming:
    """Where the time of one epoch went, in milliseconds.

    Attributes:
        total_ms: from the beginning of its planning to the end of its last bundle, or of its Spark job if it has one of
            its own.
        spark_ms: by the names that Spark gives its parts; of an epoch in a span only `latestOffset`, its planning, and
            `triggerExecution`, all of it.
        bundle_ms: the steps of the bundles; the slowest bundle's of each.
    """

    epoch: int
    records: int
    total_ms: int
    spark_ms: dict[str, int]
    bundle_ms: dict[str, float]


@dataclass(slots=True)
class Progress:
    """Counters since this run began. Thread-safe.

    Attributes:
        on_epoch: called with each completed epoch; with one that a span left open, when the span has ended, and
            again when the job that finished it has.
    """

    metrics: Metrics = field(default_factory=Metrics)
    on_epoch: Callable[[EpochTiming, list[BundleSummary]], None] | None = None
    epochs: int = 0
    last_epoch: int = -1
    due_ms: int | None = None
    """When a punctuation is due by the wall clock, as of the last epoch."""
    timings: list[EpochTiming] = field(default_factory=list)
    _seen_batch: int = -1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def seen_batch(self) -> int:
        """Spark's number of the last batch that was added, -1 before the first."""
        return self._seen_batch

    def begin_query(self) -> None:
        """A new query numbers its batches from 0 again."""
        with self._lock:
            self._seen_batch = -1

    def take(self, updates: Iterable[Any]) -> None:
        """Add what Spark reported (of `query.recentProgress`, oldest first); what was added before is skipped."""
        with self._lock:
            for update in updates:
                batch = int(update["batchId"])
                if batch <= self._seen_batch:
                    continue
                observed = (update.get("observedMetrics") or {}).get(SUMMARIES)
                if observed is None:  # an idle trigger, under the number of the batch to come
                    continue
                self._seen_batch = batch
                self._add(
                    [BundleSummary.from_bytes(_bytes(item)) for item in observed[SUMMARIES]], update["durationMs"]
                )

    def add_reports(self, lines: Iterable[bytes]) -> None:
        """Add epochs of spans, which the planner reports (`DriverControl.reports`)."""
        with self._lock:
            for line in lines:
                report = decode_json(line, as_type=EpochReport)
                durations = {"triggerExecution": round(report.total_ms), "latestOffset": round(report.planning_ms)}
                self._add([BundleSummary.from_bytes(data) for data in report.summaries], durations)

    def counters(self) -> dict[str, int]:
        """Totals by metric name."""
        with self._lock:
            return dict(self.metrics.by_name())

    def consumed(self, without: Collection[str]) -> int:
        """Records read from all topics but these."""
        with self._lock:
            counts = self.metrics.by_owner(RECORDS_CONSUMED)
        return sum(count for topic, count in counts.items() if topic not in without)

    def _add(self, summaries: list[BundleSummary], durations: dict[str, int]) -> None:
        if not summaries:
            return
        epoch = max(summary.epoch for summary in summaries)
        self.epochs += epoch > self.last_epoch  # one that a span left open comes a second time
        if epoch >= self.last_epoch:
            self.last_epoch = epoch
            self.due_ms = min((each.due_ms for each in summaries if each.due_ms is not None), default=None)
        slowest: dict[str, float] = {}
        before = self.metrics.total(RECORDS_CONSUMED)
        for summary in summaries:
            self.metrics.merge(count for count in summary.metrics if count.name != ENTRIES)
            for step, seconds in summary.seconds.items():
                slowest[step] = max(slowest.get(step, 0.0), round(seconds * 1000, 2))
        consumed = self.metrics.total(RECORDS_CONSUMED) - before
        timing = EpochTiming(epoch, consumed, int(durations.get("triggerExecution", 0)), dict(durations), slowest)
        self.timings.append(timing)
        del self.timings[:-1000]
        if self.on_epoch is not None:
            self.on_epoch(timing, summaries)


def _bytes(item: Any) -> bytes:
    return base64.b64decode(item) if isinstance(item, str) else bytes(item)
