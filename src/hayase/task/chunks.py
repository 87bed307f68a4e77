"""The input of an epoch in chunks of the merged order, so that it need not be in memory as a whole.

Each queue is read a bit at a time. Of what has been read, that part is certain to come next which lies before the last
record read of every queue that goes on: by running maximum of the timestamps, then by queue (see `queues`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hayase.core.records import headers_bytes
from hayase.log.protocol import RecordBatch
from hayase.state.delta.journal import EdgeRow
from hayase.task.queues import Int64Array, Queue, release_order
from hayase.task.task_context import TaskContext

T = TypeVar("T")

TopicInput = RecordBatch | Iterable[RecordBatch]
"""Records of one partition: all of them, or one batch behind the other."""
TopicInputs = Sequence[tuple[str, TopicInput]]
"""Source name and records of each partition of the log, in tie order."""
EdgeInputs = Mapping[tuple[str, str], Iterable[EdgeRow]]
"""Rows by (edge, origin), ascending by `seq`."""

_RECORD_BYTES = 200
"""What a record costs in memory beside the bytes of its key and value, and its headers."""
_SAMPLED = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of the merged order.

    Attributes:
        queues: the records of each queue, in tie order.
        order: queue number and row number of each record.
        whole: this is all of the epoch's input.
        last: no chunk follows.
    """

    queues: list[Queue]
    order: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    whole: bool
    last: bool

    def __len__(self) -> int:
        return len(self.order[0])


class InputBuffer:
    """One queue of a task: what of it is read and not yet handed out.

    Args:
        pieces: what is to be read.
        size: about how much memory a piece takes, in bytes.
        decode: makes a queue of consecutive pieces.
    """

    def __init__(self, pieces: Iterable[T], size: Callable[[T], int], decode: Callable[[list[T]], Queue]) -> None:
        self._pieces: Iterator[object] = iter(pieces)
        self._size: Callable[[Any], int] = size
        self._decode: Callable[[list[Any]], Queue] = decode
        self._queue: Queue | None = None
        self._releases: Int64Array = np.empty(0, np.int64)
        self._taken = 0
        self.release = np.iinfo(np.int64).min
        """Largest timestamp read so far."""
        self.done = False

    @property
    def empty(self) -> bool:
        """Whether everything read was handed out."""
        return self._queue is None or self._taken == len(self._releases)

    def read(self, max_bytes: int | None) -> int:
        """Read on; returns about how many bytes. `None`: everything."""
        pieces, total = [], 0
        while max_bytes is None or total < max_bytes:
            piece = next(self._pieces, None)
            if piece is None:
                self.done = True
                break
            pieces.append(piece)
            total += self._size(piece)
        self._queue, self._taken = (self._decode(pieces) if pieces else None), 0
        times = self._queue.timestamps_ms if self._queue is not None else np.empty(0, np.int64)
        self._releases = np.maximum(np.maximum.accumulate(times), self.release) if len(times) else times
        if len(times):
            self.release = int(self._releases[-1])
        return total

    def take(self, release: int | None, *, inclusive: bool) -> tuple[Queue, Int64Array] | None:
        """Hand out what comes before a release, or at it too; `None`: all that is there."""
        if self._queue is None:
            return None
        end = len(self._releases)
        if release is not None:
            end = int(np.searchsorted(self._releases, release, side="right" if inclusive else "left"))
        start, self._taken = self._taken, max(end, self._taken)
        return self._queue.part(start, self._taken), self._releases[start : self._taken]


def chunks(buffers: Sequence[InputBuffer], services: TaskContext) -> Iterator[Chunk]:
    """The merged order of the buffers, which are given in tie order; at least one chunk, the last one perhaps empty.

    With the epoch's space in `services`, a chunk is about as large as its share; without, there is one chunk.
    """
    space = services.space
    share = None if space is None else max(1, space.share // max(1, len(buffers)))
    whole = True
    while True:
        for buffer in buffers:
            if buffer.empty and not buffer.done:
                taken = buffer.read(share)
                if space is not None:
                    space.read_bytes += taken
        going_on = [(buffer.release, number) for number, buffer in enumerate(buffers) if not buffer.done]
        chunk = _next(buffers, min(going_on, default=None), whole=whole and not going_on)
        if len(chunk) or chunk.last:
            services.meter.merged([queue.timestamps_ms for queue in chunk.queues], chunk.order)
            yield chunk
            whole = False
        if chunk.last:
            return


def _next(buffers: Sequence[InputBuffer], bound: tuple[int, int] | None, *, whole: bool) -> Chunk:
    queues: list[Queue] = []
    releases: list[Int64Array] = []
    for number, buffer in enumerate(buffers):
        release, last = bound if bound is not None else (None, 0)
        taken = buffer.take(release, inclusive=number <= last)
        if taken is not None:
            queues.append(taken[0])
            releases.append(taken[1])
    return Chunk(queues, release_order(releases), whole, bound is None)


def record_bytes(batch: RecordBatch) -> int:
    """About how much memory records take; looks at some of them."""
    some = slice(None, None, _SAMPLED)
    values, keys = batch.values[some], batch.keys[some]
    sampled = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
    if batch.headers is not None:
        sampled += sum(map(headers_bytes, batch.headers[some]))
    return len(batch) * _RECORD_BYTES + sampled * len(batch) // max(1, len(values))


def batches_of(given: TopicInput) -> Iterable[RecordBatch]:
    """Records of a partition as batches."""
    return [given] if isinstance(given, RecordBatch) else given
