"""Reading ranges of partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from hayase.core.records import TopicPartition
from hayase.log.kafka.cursor import Cursor
from hayase.log.kafka.forks import ProcessBound
from hayase.log.protocol import LogConfig, RecordBatch

_MAX_CURSORS = 8


class KafkaReader(ProcessBound):
    """Reads ranges with consumers that are kept from one range to the next.

    A range that begins where the last one of its partition ended goes on with what is prefetched; any other costs
    about a millisecond. Ranges of several partitions may be read alternately. At most eight idle consumers are kept.

    Args:
        config: the log.
        timeout_s: how long to wait for a broker that makes no progress.
        monotonic: the clock for timeouts, in seconds.
    """

    def __init__(
        self, config: LogConfig, *, timeout_s: float = 60.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._config = config
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._idle: list[Cursor] = []  # least recently used first

    def fetch(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        """See `LogReader.fetch`. Nothing is asked of the broker for an empty range.

        Besides the errors named there: LogError `BROKER_UNAVAILABLE` after the timeout. A range that reaches into
        an open transaction counts as one whose end is not there.
        """
        if end <= start:
            return
        cursor = self._take(partition, start)
        try:
            yield from cursor.read(partition, start, end)
        finally:
            self._give_back(cursor)

    def _take(self, partition: TopicPartition, start: int) -> Cursor:
        """The cursor that stands there, else the one of that partition, else a new one, else the least used.

        A cursor for each partition: one that has just come to the end of its topic waits some milliseconds for the
        broker before it can go elsewhere.
        """
        chosen = next((cursor for cursor in self._idle if cursor.stands_at(partition, start)), None)
        if chosen is None:
            chosen = next((cursor for cursor in self._idle if cursor.partition == partition), None)
        if chosen is None and len(self._idle) >= _MAX_CURSORS:
            chosen = next((cursor for cursor in self._idle if not cursor.streaming), self._idle[0])
        if chosen is None:
            return Cursor(self._config, self._timeout_s, self._monotonic)
        self._idle.remove(chosen)
        return chosen

    def _give_back(self, cursor: Cursor) -> None:
        self._idle.append(cursor)
        if len(self._idle) > _MAX_CURSORS:
            self._idle.pop(0).close()

    def close(self) -> None:
        """See `LogReader.close`."""
        for cursor in self._idle:
            cursor.close()
        self._idle.clear()

    def forget_clients(self) -> None:
        """See `ProcessBound.forget_clients`."""
        self._idle = []
