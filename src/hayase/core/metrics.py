"""Counters of one task or application, plain numbers that travel in summaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

MetricKey = tuple[str, str]
"""Name of the metric (Kafka Streams' where the meaning exists) and the node or topic it belongs to."""

DROPPED_RECORDS = "dropped-records-total"
LATE_RECORDS = "late-records-total"
SKIPPED_RECORDS = "skipped-records-total"
DEAD_LETTERS = "dead-letter-records-total"
RECORDS_CONSUMED = "records-consumed-total"
RECORDS_PRODUCED = "records-produced-total"


class Metrics:
    """Adds up counts by name and by the node or topic they belong to.

    Nothing is dropped anywhere without one of these being incremented.

    Example:
        >>> metrics = Metrics()
        >>> metrics.add(DROPPED_RECORDS, "KSTREAM-AGGREGATE-0000000001")
        >>> metrics.total(DROPPED_RECORDS)
        1
    """

    def __init__(self) -> None:
        self._counts: Counter[MetricKey] = Counter()

    def add(self, name: str, owner: str, count: int = 1) -> None:
        """Add to a counter."""
        if count:
            self._counts[(name, owner)] += count

    def total(self, name: str) -> int:
        """The sum over all owners."""
        return sum(count for (metric, _), count in self._counts.items() if metric == name)

    def rows(self) -> list[tuple[str, str, int]]:
        """All counters as `(name, owner, count)`, sorted; what a summary carries."""
        return sorted((name, owner, count) for (name, owner), count in self._counts.items())

    def merge(self, rows: Iterable[tuple[str, str, int]]) -> None:
        """Add what another one's `rows` said."""
        for name, owner, count in rows:
            self.add(name, owner, count)

    def by_name(self) -> Mapping[str, int]:
        """Totals by name."""
        totals: Counter[str] = Counter()
        for (name, _), count in self._counts.items():
            totals[name] += count
        return dict(totals)
