"""What is measured about a task's input and output during an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from hayase.core.metrics import (
    BYTES_CONSUMED,
    E2E_LATENCY,
    LATENESS,
    PROCESSED,
    RECORDS_CONSUMED,
    UNREADABLE,
    Metrics,
)
from hayase.core.records import UNREADABLE_HEADERS
from hayase.log.protocol import RecordBatch
from hayase.task.clocks import STREAM_TIME, StateClocks

Int64Array = npt.NDArray[np.int64]


def count_consumed(metrics: Metrics, raw: RecordBatch) -> None:
    """Count records of a topic, and headers among them that could not be read."""
    metrics.add(RECORDS_CONSUMED, raw.topic, len(raw))
    if raw.headers is not None and (unreadable := raw.headers.count(UNREADABLE_HEADERS)):
        metrics.add(UNREADABLE, raw.topic, unreadable)


class TaskMeter:
    """Measures for one task and one epoch; whole batches at a time.

    Args:
        metrics: of the task.
        now_ms: the wall clock.
        clocks: of the task; read only, as what is measured must not change state. Where the task keeps its stream time,
            they have it.
        stream_time_ms: the largest event time that this process has seen in the task, -1 if none. Another process may
            have run the task meanwhile, so its lateness may be given too small; it is a measurement and decides
            nothing.
    """

    def __init__(
        self, metrics: Metrics, now_ms: Callable[[], int], clocks: StateClocks, stream_time_ms: int = -1
    ) -> None:
        self._metrics = metrics
        self._now_ms = now_ms
        self._clocks = clocks
        self.stream_time_ms = stream_time_ms

    def received(self, source: str, times_ms: Int64Array) -> None:
        """Records of a source node, by their event times, that are about to be processed."""
        self._metrics.add(PROCESSED, source, len(times_ms))
        self._metrics.measure(E2E_LATENCY, source, self._now_ms() - times_ms)

    def received_bytes(self, raw: RecordBatch) -> None:
        """Sizes of keys and values; a look at every record, so only at DEBUG."""
        if self._metrics.debug:
            self._metrics.add(BYTES_CONSUMED, raw.topic, _size(raw.keys) + _size(raw.values))

    def sent(self, sink: str, times_ms: Int64Array | Sequence[int]) -> None:
        """Records that a sink has written."""
        self._metrics.measure(E2E_LATENCY, sink, self._now_ms() - np.asarray(times_ms, np.int64))

    def merged(self, queues: Sequence[Int64Array], order: tuple[Int64Array, Int64Array]) -> None:
        """What was received, in the order in which it is processed: how late records are. Only at DEBUG.

        Args:
            queues: event times of each queue.
            order: queue number and row number of each record; those of an earlier call come before them.
        """
        if not self._metrics.debug or not len(order[0]):
            return
        first = np.cumsum([0, *(len(queue) for queue in queues[:-1])])
        times = np.concatenate(queues)[first[order[0]] + order[1]]
        before = max(self.stream_time_ms, self._clocks.get(STREAM_TIME))
        stream_time = np.maximum(np.maximum.accumulate(times), before)
        self._metrics.measure(LATENESS, "", stream_time - times)
        self.stream_time_ms = int(stream_time[-1])


def _size(items: Iterable[bytes | None]) -> int:
    return sum(map(len, filter(None, items)))
