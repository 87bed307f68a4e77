"""The inputs of a task in one epoch and the order in which they are processed.

A queue is one partition of one topic, or what one task of a lower level sent over one edge. Inside a queue offset order
is kept; of several queues the one whose head has the smallest timestamp goes next, ties by source order in the
topology, then by partition. That is the same as sorting stably by the running maximum of each queue's timestamps: a
record behind a larger timestamp has to wait for it, and is then at the head with a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hayase.core.records import Headers, SourceRecord

Int64Array = npt.NDArray[np.int64]


class RecordSource(Protocol):
    """Where records are looked up."""

    headers: list[Headers] | None

    def record(self, row: int) -> SourceRecord:
        """One record, for handlers."""
        ...

    def take(self, rows: Sequence[int]) -> RecordSource:
        """A copy of some records, which can be pickled; they are its first rows, in this order."""
        ...


@dataclass(slots=True)
class Queue:
    """One queue of a task, or some consecutive records of it, decoded.

    Attributes:
        source: position of its source among the sub-topology's sources.
        raw: what was read: where handlers find the records.
        rows: row numbers in `raw` of the records that are still there after decoding and time extraction.
        timestamps_ms: event time of each of these.
        content: in columns a frame, aligned with `rows`; in rows what is left after the source's prefix
            (`task.prefix.Arrivals`).
    """

    source: int
    raw: RecordSource
    rows: npt.NDArray[np.int64]
    timestamps_ms: Int64Array
    content: Any

    def part(self, start: int, end: int) -> Queue:
        """Some consecutive records."""
        if start == 0 and end == len(self.rows):
            return self
        cut = slice(start, end)
        return Queue(self.source, self.raw, self.rows[cut], self.timestamps_ms[cut], self.content[cut])


def merge_order(times: Sequence[Int64Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The processing order of several queues, given in tie order: queue number and row number of each record.

    Example:
        >>> queue, row = merge_order([np.array([10, 5]), np.array([7, 12])])
        >>> list(zip(queue.tolist(), row.tolist()))
        [(1, 0), (0, 0), (0, 1), (1, 1)]
    """
    return release_order([np.maximum.accumulate(t) if len(t) else t for t in times])


def release_order(releases: Sequence[Int64Array]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The same, given the running maximum of each queue's timestamps."""
    lengths = [len(release) for release in releases]
    queue = np.repeat(np.arange(len(releases)), lengths)
    row = np.concatenate([np.arange(n) for n in lengths]) if lengths else np.empty(0, np.int64)
    if sum(n > 0 for n in lengths) <= 1:
        return queue, row
    order = np.lexsort((row, queue, np.concatenate(releases)))
    return queue[order], row[order]
