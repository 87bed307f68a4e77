"""How long pull queries take, and rows of push queries wait, for /metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from prometheus_client import Histogram

_BUCKETS_S = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def _histogram(name: str, text: str) -> Histogram:
    return Histogram(name, text, registry=None, buckets=_BUCKETS_S)


@dataclass(frozen=True)
class QueryTimes:
    """Histograms, which no registry has yet.

    Attributes:
        pull: from the start of a pull query until its rows are all taken.
        push: from when rows of a push query are computed until its connection takes them.
    """

    pull: Histogram = field(
        default_factory=lambda: _histogram("hayase_sql_pull_query_seconds", "Time that a pull query takes")
    )
    push: Histogram = field(
        default_factory=lambda: _histogram("hayase_sql_push_wait_seconds", "Time that a batch of rows waits")
    )
