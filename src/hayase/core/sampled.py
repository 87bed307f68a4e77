"""Values over the last samples, as in Kafka's own metrics (`metrics.sample.window.ms`, `metrics.num.samples`)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleWindows:
    """How long values count.

    Attributes:
        sample_ms: length of a sample.
        samples: how many of them are looked at.
    """

    sample_ms: int = 30_000
    samples: int = 2


@dataclass(slots=True)
class _Sample:
    start_ms: int
    count: int = 0
    total: float = 0.0
    lowest: float = float("inf")
    highest: float = float("-inf")


class SampledStat:
    """Average, smallest, largest and rate of what was recorded in the last samples. Times come from the caller.

    Example:
        >>> stat = SampledStat(SampleWindows(1_000, 2))
        >>> stat.record(0, 2, 30.0, 10.0, 20.0)
        >>> stat.average(500), stat.highest(500), stat.rate(500)
        (15.0, 20.0, 20.0)
        >>> stat.average(5_000)
        nan
    """

    def __init__(self, windows: SampleWindows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, now_ms: int, count: int, total: float, lowest: float, highest: float) -> None:
        """Add `count` values at once."""
        if not self._samples or now_ms - self._samples[-1].start_ms >= self._windows.sample_ms:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[-1]
        sample.count += count
        sample.total += total
        sample.lowest = min(sample.lowest, lowest)
        sample.highest = max(sample.highest, highest)
        self._forget(now_ms)

    def average(self, now_ms: int) -> float:
        """Of the values; NaN if there was none lately."""
        self._forget(now_ms)
        count = sum(sample.count for sample in self._samples)
        return sum(sample.total for sample in self._samples) / count if count else float("nan")

    def lowest(self, now_ms: int) -> float:
        """The smallest; NaN if there was none lately."""
        self._forget(now_ms)
        return min((sample.lowest for sample in self._samples), default=float("nan"))

    def highest(self, now_ms: int) -> float:
        """The largest; NaN if there was none lately."""
        self._forget(now_ms)
        return max((sample.highest for sample in self._samples), default=float("nan"))

    def rate(self, now_ms: int) -> float:
        """The sum of the values per second.

        A first sample that is still short is taken for a whole one, so that the rate does not begin with a peak; so it
        is in Kafka.
        """
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        elapsed = now_ms - self._samples[0].start_ms
        full = elapsed // self._windows.sample_ms
        missing = max(0, self._windows.samples - 1 - full)
        seconds = max(elapsed + missing * self._windows.sample_ms, self._windows.sample_ms) / 1000
        return sum(sample.total for sample in self._samples) / seconds

    def _forget(self, now_ms: int) -> None:
        oldest = now_ms - self._windows.sample_ms * self._windows.samples
        while self._samples and self._samples[0].start_ms <= oldest:
            self._samples.popleft()
