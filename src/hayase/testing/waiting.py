"""What is waiting inside the test driver: repartition topics, and topics that are both written and read.

Queues, of which the one whose head is oldest goes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import polars as pl

from hayase.state.journal import EdgeRow
from hayase.task.edges import read_payloads, to_payload
from hayase.testing.topics import RawRecord


class WaitingQueues:
    """One queue per repartition topic, first in, first out; ties between heads go to the topic that was used first."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[tuple[int, EdgeRow | RawRecord]]] = {}

    def add_record(self, record: RawRecord) -> None:
        """Take a record of a topic that the topology reads as well."""
        self._queues.setdefault(record.topic, deque()).append((record.timestamp_ms, record))

    def add(self, rows: Iterable[EdgeRow]) -> None:
        """Take rows, cut into single records."""
        for row in rows:
            frame = read_payloads([row])
            time = "ts" if "ts" in frame.columns else "__ts"
            queue = self._queues.setdefault(row.edge, deque())
            for position in range(frame.height):
                one = frame[position : position + 1]
                queue.append((one[time][0], row._replace(seq=0, payload=_payload(one))))

    def next(self) -> EdgeRow | RawRecord | None:
        """The record whose timestamp is the smallest of all heads; `None` if all queues are empty."""
        waiting = [(queue[0][0], edge) for edge, queue in self._queues.items() if queue]
        if not waiting:
            return None
        oldest = min(time for time, _ in waiting)
        edge = next(edge for time, edge in waiting if time == oldest)
        return self._queues[edge].popleft()[1]


def _payload(frame: pl.DataFrame) -> bytes:
    return to_payload(frame)
