"""What is waiting inside the test driver: input records, repartition topics, and topics that are both written and read.

Queues, of which the one whose head has the smallest event time goes next (Kafka Streams' `PartitionGroup`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import polars as pl

from hayase.state.delta.journal import EdgeRow
from hayase.task.edges import read_row, to_payload
from hayase.testing.topics import RawRecord
from hayase.topology.nodes import SinkNode
from hayase.topology.topology import Topology

TimeOf = Callable[[RawRecord], int]
"""The event time of an input record, asked for when it is the first of its topic."""


@dataclass(slots=True, eq=False)
class _Queue:
    """One topic: records that wait, and the event time of the first, once it is known."""

    records: deque[tuple[int | None, EdgeRow | RawRecord]] = field(default_factory=deque)

    def head_ms(self, time_of: TimeOf) -> int:
        time_ms, record = self.records[0]
        if time_ms is None:
            assert isinstance(record, RawRecord)
            time_ms = time_of(record)
            self.records[0] = time_ms, record
        return time_ms


class WaitingQueues:
    """One queue per topic, first in, first out.

    Queues that are not empty lie in a heap as `java.util.PriorityQueue` keeps it, so that ties between heads are
    broken as in Kafka Streams: a queue that was served goes behind its equals.
    """

    def __init__(self, time_of: TimeOf) -> None:
        self._time_of = time_of
        self._queues: dict[str, _Queue] = {}
        self._heap: list[_Queue] = []
        self._served: _Queue | None = None
        self._sent: Counter[str] = Counter()

    def add_record(self, record: RawRecord) -> None:
        """Take a record of a topic that the topology reads as well."""
        self._add(record.topic, None, record)

    def add(self, row: EdgeRow) -> None:
        """Take a row, cut into single records: their numbers are the offsets in an internal topic of one partition."""
        frame = read_row(row)
        time = "ts" if "ts" in frame.columns else "__ts"
        for position in range(frame.height):
            record = frame[position : position + 1]
            self._add(row.edge, record[time][0], row._replace(seq=self._sent[row.edge], payload=_payload(record)))
            self._sent[row.edge] += 1

    def next(self) -> EdgeRow | RawRecord | None:
        """The record with the smallest event time of all heads; `None` if all queues are empty."""
        self._settle()
        if not self._heap:
            return None
        self._served = self._poll()
        return self._served.records.popleft()[1]

    def _settle(self) -> None:
        """The queue that was served goes back, now that its record is processed.

        The next one's time may depend on it.
        """
        queue, self._served = self._served, None
        if queue is not None and queue.records:
            self._offer(queue)

    def _add(self, topic: str, time_ms: int | None, record: EdgeRow | RawRecord) -> None:
        self._settle()
        queue = self._queues.setdefault(topic, _Queue())
        queue.records.append((time_ms, record))
        if len(queue.records) == 1:
            self._offer(queue)

    def _before(self, this: _Queue, other: _Queue) -> bool:
        return this.head_ms(self._time_of) < other.head_ms(self._time_of)

    def _offer(self, queue: _Queue) -> None:
        heap, at = self._heap, len(self._heap)
        heap.append(queue)
        while at and self._before(queue, heap[(at - 1) >> 1]):
            heap[at], at = heap[(at - 1) >> 1], (at - 1) >> 1
        heap[at] = queue

    def _poll(self) -> _Queue:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            at = 0
            while (child := 2 * at + 1) < len(heap):
                if child + 1 < len(heap) and self._before(heap[child + 1], heap[child]):
                    child += 1
                if not self._before(heap[child], last):
                    break
                heap[at], at = heap[child], child
            heap[at] = last
        return first


def topics_as_sent(topology: Topology) -> list[str]:
    """Topics and repartitions in the order in which one record reaches their sinks.

    Each node's children as they were added.
    """
    topics: dict[str, None] = {}

    def reached(names: Iterator[str]) -> None:
        for name in names:
            node = topology.by_name[name]
            if isinstance(node, SinkNode) and node.topic is not None:
                topics.setdefault(node.topic)
            reached(iter(topology.children[name]))

    reached(node.name for node in topology.nodes if not getattr(node, "parents", ()))
    return list(topics)


def _payload(frame: pl.DataFrame) -> bytes:
    return to_payload(frame)
