"""From the bundles' summaries to Kafka Streams' metrics: groups, tags and names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hayase.core.metrics import (
    BYTES_CONSUMED,
    BYTES_PRODUCED,
    DEAD_LETTERS,
    DROPPED_RECORDS,
    E2E_LATENCY,
    ENTRIES,
    FINAL_EMITTED,
    LATE_RECORDS,
    LATENESS,
    LEVELS,
    MISSING_FIELDS,
    PROCESS_LATENCY,
    PROCESSED,
    PUNCTUATE_LATENCY,
    RECORDS_CONSUMED,
    RECORDS_PRODUCED,
    RESTORED,
    ROW_BY_ROW,
    SNAPSHOTS_FAILED,
    STATES_REBUILT,
    SUPPRESSION_BYTES,
    SUPPRESSION_EMITTED,
    SUPPRESSION_ROWS,
    UNREADABLE,
    Count,
    Measure,
    parts_of_user_metric,
)
from hayase.core.metrics_registry import MetricsRegistry, Stat
from hayase.task.summary import BundleSummary

Tags = tuple[tuple[str, str], ...]

CLIENT = "stream-metrics"
THREAD = "stream-thread-metrics"
TASK = "stream-task-metrics"
NODE = "stream-processor-node-metrics"
TOPIC = "stream-topic-metrics"
STATE = "stream-state-metrics"
EPOCH = "stream-epoch-metrics"
"""Hayase's own group: Kafka Streams has no epochs."""

_STORE = "lmdb-state-id"
_COMMIT_STEPS = ("delta", "apply", "publish", "adopt")


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where a count or a measurement is shown.

    Attributes:
        owner: the tag of its node, topic or store.
        counted: of a measurement: how many values there were is a count as well.
    """

    group: str
    name: str
    description: str
    owner: str = ""
    level: str = "INFO"
    rate: bool = True
    stats: tuple[Stat, ...] = ("avg", "max")
    counted: tuple[str, str] | None = None


COUNTS: Mapping[str, tuple[_Shown, ...]] = {
    DROPPED_RECORDS: (
        _Shown(TASK, "dropped-records", "records dropped"),
        _Shown(NODE, "dropped-records", "records dropped by the node", "processor-node-id", rate=False),
    ),
    LATE_RECORDS: (
        _Shown(
            NODE, "late-records", "records refused because their window was closed", "processor-node-id", rate=False
        ),
    ),
    DEAD_LETTERS: (
        _Shown(
            NODE, "dead-letter-records", "records written to the dead-letter topic", "processor-node-id", rate=False
        ),
    ),
    MISSING_FIELDS: (
        _Shown(
            NODE,
            "missing-fields",
            "fields that expressions asked for and values did not have",
            "processor-node-id",
            rate=False,
        ),
    ),
    ROW_BY_ROW: (
        _Shown(
            NODE,
            "row-by-row-records",
            "records of batches that a function with two forms left to its row form",
            "processor-node-id",
            rate=False,
        ),
    ),
    RECORDS_CONSUMED: (
        _Shown(TOPIC, "records-consumed", "records consumed from this topic", "topic-name", rate=False),
    ),
    UNREADABLE: (
        _Shown(
            TOPIC,
            "unreadable-headers",
            "records of this topic whose headers could not be read",
            "topic-name",
            rate=False,
        ),
    ),
    RECORDS_PRODUCED: (_Shown(TOPIC, "records-produced", "records produced to this topic", "topic-name", rate=False),),
    BYTES_CONSUMED: (
        _Shown(
            TOPIC, "bytes-consumed", "bytes of keys and values consumed from this topic", "topic-name", "DEBUG", False
        ),
    ),
    BYTES_PRODUCED: (
        _Shown(TOPIC, "bytes-produced", "bytes of keys and values produced to this topic", "topic-name", rate=False),
    ),
    PROCESSED: (
        _Shown(TASK, "process", "records processed", level="DEBUG"),
        _Shown(NODE, "process", "records processed by this source node", "processor-node-id", "DEBUG"),
    ),
    RESTORED: (_Shown(TASK, "restore", "changes of state restored from the changelog"),),
    SNAPSHOTS_FAILED: (_Shown(THREAD, "snapshots-failed", "snapshots of bundles that failed"),),
    STATES_REBUILT: (_Shown(THREAD, "states-rebuilt", "local states of bundles that were damaged and rebuilt"),),
    SUPPRESSION_EMITTED: (
        _Shown(NODE, "suppression-emit", "updates sent from the suppression buffer", "processor-node-id", "DEBUG"),
    ),
    FINAL_EMITTED: (
        _Shown(NODE, "window-aggregate-final-emit", "results sent when windows closed", "processor-node-id", "DEBUG"),
    ),
}
"""How each count of a summary is shown; the entries of stores are shown otherwise."""
_PUNCTUATIONS = ("punctuate", "punctuations")
MEASURES: Mapping[str, tuple[_Shown, ...]] = {
    PROCESS_LATENCY: (
        _Shown(TASK, PROCESS_LATENCY, "time that an epoch of the task took, in ms", level="DEBUG"),
    ),
    E2E_LATENCY: (
        _Shown(
            NODE, E2E_LATENCY, "time from a record's timestamp until this node had it, in ms", "processor-node-id",
            stats=("avg", "min", "max"),
        ),
    ),
    LATENESS: (
        _Shown(TASK, LATENESS, "time that records were behind the stream time of their task, in ms", level="DEBUG"),
    ),
    PUNCTUATE_LATENCY: (
        _Shown(THREAD, PUNCTUATE_LATENCY, "time that a punctuation took, in ms", counted=_PUNCTUATIONS),
        _Shown(TASK, PUNCTUATE_LATENCY, "time that a punctuation took, in ms", level="DEBUG", counted=_PUNCTUATIONS),
    ),
    SUPPRESSION_ROWS: (
        _Shown(STATE, SUPPRESSION_ROWS, "number of rows in the suppression buffer", _STORE, "DEBUG"),
    ),
    SUPPRESSION_BYTES: (
        _Shown(STATE, SUPPRESSION_BYTES, "size of the rows in the suppression buffer", _STORE, "DEBUG"),
    ),
}  # fmt: skip
"""How each measurement of a summary is shown."""


class SummaryMetrics:
    """Adds what bundles report to a registry; what is counted about threads is there from the beginning, as 0.

    Args:
        registry: where it goes.
        threads: bundle → number of the slot that runs it, from 0.
        client_id: first part of thread ids.
        level: the recording level.
    """

    def __init__(self, registry: MetricsRegistry, threads: Mapping[str, int], client_id: str, level: str) -> None:
        self._registry = registry
        self._threads = threads
        self._client_id = client_id
        self._level = LEVELS.index(level)
        for number in sorted(set(threads.values())):
            self._count(self._thread(number), processed=0, commits=0)

    def add(self, summary: BundleSummary) -> None:
        """Take one bundle's summary of one epoch."""
        thread = self._thread(self._threads.get(summary.bundle, 0))
        self._add_thread(thread, summary)
        for count in summary.metrics:
            if count.name == ENTRIES:
                self._add_entries(thread, count)
            self._add_users(thread, count)
            for shown in COUNTS.get(count.name, ()):
                if self._recorded(shown):
                    tags = _tags(thread, shown, count)
                    self._registry.count(shown.group, shown.name, tags, count.value, shown.description, rate=shown.rate)
        for measure in summary.measures:
            if not self._add_users(thread, measure):
                for shown in MEASURES[measure.name]:
                    self._add_measure(thread, shown, measure)

    def _add_measure(self, thread: Tags, shown: _Shown, measure: Measure) -> None:
        if not self._recorded(shown):
            return
        tags = _tags(thread, shown, measure)
        self._registry.measure(shown.group, shown.name, tags, measure[3:], shown.description, shown.stats)
        if shown.counted is not None:
            name, what = shown.counted
            self._registry.count(shown.group, name, tags, measure.number, what)

    def _add_users(self, thread: Tags, what: Count | Measure) -> bool:
        """Whether it is one of the user; see `StreamsMetrics`."""
        parts = parts_of_user_metric(what.name)
        if parts is None:
            return False
        scope, operation, more = parts
        tags = (*thread, ("task-id", what.task), (f"{scope}-id", what.owner), *more)
        if isinstance(what, Count):
            self._registry.count(f"stream-{scope}-metrics", operation, tags, what.value, f"{operation} operations")
        else:
            self._registry.measure(f"stream-{scope}-metrics", operation, tags, what[3:], operation)
        return True

    def _thread(self, number: int) -> Tags:
        return (("thread-id", f"{self._client_id}-StreamThread-{number + 1}"),)

    def _count(self, thread: Tags, *, processed: int, commits: int) -> None:
        self._registry.count(THREAD, "process", thread, processed, "records processed")
        self._registry.count(THREAD, "commit", thread, commits, "commits, one per bundle and epoch")

    def _add_thread(self, thread: Tags, summary: BundleSummary) -> None:
        processed = sum(count.value for count in summary.metrics if count.name == PROCESSED)
        self._count(thread, processed=processed, commits=1)
        self._measure(
            THREAD, "process-records", thread, processed, "number of records processed in an epoch of a bundle"
        )
        process_ms = summary.seconds.get("process", 0.0) * 1000
        self._measure(
            THREAD, "process-latency", thread, process_ms, "time that an epoch of a bundle was processed, in ms"
        )
        commit_ms = sum(summary.seconds.get(step, 0.0) for step in _COMMIT_STEPS) * 1000
        self._measure(
            THREAD, "commit-latency", thread, commit_ms, "time that an epoch of a bundle was committed, in ms"
        )

    def _measure(self, group: str, name: str, tags: Tags, value: float, description: str) -> None:
        self._registry.measure(group, name, tags, (1, value, value, value), description)

    def _add_entries(self, thread: Tags, count: Count) -> None:
        tags = (*thread, ("task-id", count.task), (_STORE, count.owner))
        self._registry.gauge(STATE, ENTRIES, tags, _constant(count.value), "The number of entries in the store")

    def _recorded(self, shown: _Shown) -> bool:
        return LEVELS.index(shown.level) <= self._level


def _tags(thread: Tags, shown: _Shown, what: Count | Measure) -> Tags:
    task = (("task-id", what.task),) if what.task and shown.group != THREAD else ()
    return (*thread, *task, *(((shown.owner, what.owner),) if shown.owner else ()))


def _constant(value: int) -> Callable[[], int]:
    return lambda: value
