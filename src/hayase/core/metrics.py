"""What tasks count and measure during an epoch: plain numbers that travel in summaries.

Names are Kafka Streams' where the meaning exists.

`core/metrics_registry.py` is where they are added up and from where they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DROPPED_RECORDS = "dropped-records-total"
LATE_RECORDS = "late-records-total"
DEAD_LETTERS = "dead-letter-records-total"
MISSING_FIELDS = "missing-fields-total"
ROW_BY_ROW = "row-by-row-records-total"
RECORDS_CONSUMED = "records-consumed-total"
UNREADABLE = "unreadable-headers-total"
RECORDS_PRODUCED = "records-produced-total"
BYTES_CONSUMED = "bytes-consumed-total"
BYTES_PRODUCED = "bytes-produced-total"
PROCESSED = "process-total"
RESTORED = "restore-total"
ENTRIES = "num-keys"
SNAPSHOTS_FAILED = "snapshots-failed-total"
STATES_REBUILT = "states-rebuilt-total"
SUPPRESSION_EMITTED = "suppression-emit-total"
FINAL_EMITTED = "window-aggregate-final-emit-total"

PROCESS_LATENCY = "process-latency"
E2E_LATENCY = "record-e2e-latency"
LATENESS = "record-lateness"
PUNCTUATE_LATENCY = "punctuate-latency"
SUPPRESSION_ROWS = "suppression-buffer-count"
SUPPRESSION_BYTES = "suppression-buffer-size"

LEVELS = ("INFO", "DEBUG", "TRACE")
"""Values of `metrics.recording.level`; each includes those before it."""


_USERS = "/"


def user_metric(scope: str, operation: str, tags: Mapping[str, str]) -> str:
    """The name of a metric of the user.

    Example:
        >>> user_metric("orders", "paid", {"shop": "north"})
        'orders/paid/shop=north'
    """
    return _USERS.join([scope, operation, *(f"{tag}={value}" for tag, value in tags.items())])


def parts_of_user_metric(name: str) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Scope, operation and tags of a metric of the user; `None` if it is one of the others."""
    if _USERS not in name:
        return None
    scope, operation, *tags = name.split(_USERS)
    return scope, operation, tuple((tag, value) for tag, _, value in (each.partition("=") for each in tags))


class Count(NamedTuple):
    """A counter's increment, or a gauge's value, of one epoch.

    Attributes:
        name: of the metric.
        task: the task; empty where it is of the whole bundle.
        owner: the node, topic or store it belongs to; may be empty.
        value: how many.
    """

    name: str
    task: str
    owner: str
    value: int


class Measure(NamedTuple):
    """What was measured in one epoch; see Count for the first three.

    Attributes:
        number: how many values.
        total: their sum.
        lowest, highest: the smallest and the largest.
    """

    name: str
    task: str
    owner: str
    number: int
    total: float
    lowest: float
    highest: float


class Metrics:
    """Adds up counts by name, task, and the node, topic or store they belong to.

    Nothing is dropped anywhere without one of these being incremented.

    Args:
        level: the recording level; what costs more than a few operations per batch is measured from DEBUG on.

    Example:
        >>> metrics = Metrics()
        >>> metrics.for_task("0_0").add(DROPPED_RECORDS, "KSTREAM-AGGREGATE-0000000001")
        >>> metrics.total(DROPPED_RECORDS)
        1
        >>> metrics.counts()
        [Count(name='dropped-records-total', task='0_0', owner='KSTREAM-AGGREGATE-0000000001', value=1)]
    """

    def __init__(self, level: str = "INFO") -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._measures: dict[tuple[str, str, str], Measure] = {}
        self._task = ""
        self._level = LEVELS.index(level)

    @property
    def debug(self) -> bool:
        """Whether what costs more is to be measured."""
        return self._level >= 1

    def records(self, level: str) -> bool:
        """Whether what is of that level is to be recorded."""
        return LEVELS.index(level) <= self._level

    def for_task(self, task: str) -> Metrics:
        """The same metrics, under the name of a task."""
        view = Metrics.__new__(Metrics)
        view._counts, view._measures, view._task, view._level = self._counts, self._measures, task, self._level
        return view

    def add(self, name: str, owner: str, count: int = 1) -> None:
        """Add to a counter."""
        if count:
            self._counts[(name, self._task, owner)] += count

    def measure(self, name: str, owner: str, values: npt.ArrayLike) -> None:
        """Add values to a measurement; takes them all at once."""
        array = np.asarray(values)
        if not array.size:
            return
        total = float(array.sum(dtype=np.float64))
        self._take(Measure(name, self._task, owner, array.size, total, float(array.min()), float(array.max())))

    def measure_one(self, name: str, owner: str, value: float) -> None:
        """Add one value to a measurement."""
        self._take(Measure(name, self._task, owner, 1, value, value, value))

    def _take(self, new: Measure) -> None:
        old = self._measures.get(new[:3])
        self._measures[new[:3]] = new if old is None else joined(old, new)

    def total(self, name: str) -> int:
        """The sum over all tasks and owners."""
        return sum(count for (metric, _, _), count in self._counts.items() if metric == name)

    def counts(self) -> list[Count]:
        """All counters, sorted; what a summary carries."""
        return [Count(*key, count) for key, count in sorted(self._counts.items())]

    def rows(self) -> list[tuple[str, str, int]]:
        """Counters as `(name, owner, count)` over all tasks, sorted."""
        totals: Counter[tuple[str, str]] = Counter()
        for (name, _, owner), count in self._counts.items():
            totals[(name, owner)] += count
        return sorted((name, owner, count) for (name, owner), count in totals.items())

    def measures(self) -> list[Measure]:
        """All measurements, sorted."""
        return [self._measures[key] for key in sorted(self._measures)]

    def merge(self, counts: Iterable[Count]) -> None:
        """Add what another one's `counts` said."""
        for name, task, owner, count in counts:
            self._counts[(name, task, owner)] += count

    def by_name(self) -> Mapping[str, int]:
        """Totals by name."""
        totals: Counter[str] = Counter()
        for (name, _, _), count in self._counts.items():
            totals[name] += count
        return dict(totals)

    def by_owner(self, name: str) -> Mapping[str, int]:
        """Totals of one metric by node, topic or store."""
        totals: Counter[str] = Counter()
        for (metric, _, owner), count in self._counts.items():
            if metric == name:
                totals[owner] += count
        return dict(totals)


def joined(a: Measure, b: Measure) -> Measure:
    """Two measurements of the same thing as one."""
    return a._replace(
        number=a.number + b.number,
        total=a.total + b.total,
        lowest=min(a.lowest, b.lowest),
        highest=max(a.highest, b.highest),
    )
