"""The metrics of an application: where they are added up and read from."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hayase.core.sampled import SampledStat, SampleWindows

Stat = Literal["avg", "min", "max"]
Value = float | int | str


@dataclass(frozen=True, slots=True, order=True)
class MetricName:
    """What a metric is called (Kafka's `MetricName`).

    Attributes:
        group: such as `stream-task-metrics`.
        name: such as `process-total`.
        tags: `(tag, value)` pairs in Kafka's order, e.g. `(("thread-id", "shop-StreamThread-1"), ("task-id", "0_0"))`.
        description: for people; not part of what makes two names equal.
    """

    group: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()
    description: str = field(default="", compare=False)

    def tag(self, name: str) -> str | None:
        """The value of a tag; `None` if it has none of that name."""
        return dict(self.tags).get(name)


class MetricsRegistry:
    """Counters with rates, measurements over the last samples, and gauges. Thread-safe.

    Args:
        now_ms: the clock for rates; must not go backwards.
        windows: how long values count.

    Example:
        >>> registry = MetricsRegistry(lambda: 0)
        >>> registry.count("stream-task-metrics", "process", (("task-id", "0_0"),), 30, "records processed")
        >>> {name.name: value for name, value in registry.snapshot().items()}
        {'process-rate': 1.0, 'process-total': 30}
    """

    def __init__(self, now_ms: Callable[[], int], windows: SampleWindows | None = None) -> None:
        self._now_ms = now_ms
        self._windows = windows or SampleWindows()
        self._totals: dict[MetricName, int] = {}
        self._rates: dict[MetricName, SampledStat] = {}
        self._measures: dict[tuple[MetricName, tuple[Stat, ...]], SampledStat] = {}
        self._gauges: dict[MetricName, Callable[[], Value]] = {}
        self._lock = threading.Lock()

    def count(
        self,
        group: str,
        name: str,
        tags: tuple[tuple[str, str], ...],
        count: int,
        description: str,
        *,
        rate: bool = True,
    ) -> None:
        """Add to `<name>-total`, and to what `<name>-rate` is made of."""
        total = MetricName(group, f"{name}-total", tags, f"The total number of {description}")
        with self._lock:
            self._totals[total] = self._totals.get(total, 0) + count
            if rate:
                per_second = MetricName(group, f"{name}-rate", tags, f"The average number of {description} per second")
                stat = self._rates.setdefault(per_second, SampledStat(self._windows))
                stat.record(self._now_ms(), 1, count, count, count)

    def measure(
        self,
        group: str,
        name: str,
        tags: tuple[tuple[str, str], ...],
        values: tuple[int, float, float, float],
        description: str,
        stats: tuple[Stat, ...] = ("avg", "max"),
    ) -> None:
        """Add values to `<name>-avg`, `-max` (and `-min`): how many, their sum, the smallest, the largest."""
        key = (MetricName(group, name, tags, description), stats)
        with self._lock:
            stat = self._measures.setdefault(key, SampledStat(self._windows))
            stat.record(self._now_ms(), *values)

    def gauge(
        self, group: str, name: str, tags: tuple[tuple[str, str], ...], value: Callable[[], Value], description: str
    ) -> None:
        """Have a value read when it is looked at; replaces an earlier one of the same name."""
        with self._lock:
            self._gauges[MetricName(group, name, tags, description)] = value

    def total(self, group: str, name: str, **tags: str) -> int:
        """The sum of all counters of that name whose tags include these (`_` for `-`)."""
        wanted = {tag.replace("_", "-"): value for tag, value in tags.items()}
        with self._lock:
            return sum(
                count
                for key, count in self._totals.items()
                if (key.group, key.name) == (group, name) and wanted.items() <= dict(key.tags).items()
            )

    def snapshot(self) -> dict[MetricName, Value]:
        """All metrics as they are now, sorted. Gauges that cannot be read are left out."""
        with self._lock:
            now = self._now_ms()
            values: dict[MetricName, Value] = dict(self._totals)
            values.update({name: stat.rate(now) for name, stat in self._rates.items()})
            for (base, stats), stat in self._measures.items():
                for which in stats:
                    values[MetricName(base.group, f"{base.name}-{which}", base.tags, _describe(which, base))] = _read(
                        stat, which, now
                    )
            gauges = list(self._gauges.items())
        for name, value in gauges:
            values[name] = value()
        return dict(sorted(values.items()))


def _read(stat: SampledStat, which: Stat, now_ms: int) -> float:
    if which == "avg":
        return stat.average(now_ms)
    return stat.lowest(now_ms) if which == "min" else stat.highest(now_ms)


def _describe(which: Stat, base: MetricName) -> str:
    word = {"avg": "average", "min": "smallest", "max": "largest"}[which]
    return f"The {word} {base.description}"
