"""Records that INSERT INTO … VALUES and /inserts-stream write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from hayase.core.errors import UnknownTopicError
from hayase.log.protocol import EpochWriter, Log, OutputBatch
from hayase.server.topics import LogTopics, topic_is_gone
from hayase.sql.statements.results import ProducedRecord


class RecordInserts:
    """Writes records to topics, one call after the other. Thread-safe.

    Args:
        log: of the topics.
        topics: which of them may be written.
        now_ms: the time of records that have none.
    """

    def __init__(self, log: Log, topics: LogTopics, now_ms: Callable[[], int]) -> None:
        self.written = 0
        self._log = log
        self._topics = topics
        self._now_ms = now_ms
        self._writer: EpochWriter | None = None
        self._lock = threading.Lock()

    def write(self, records: Sequence[ProducedRecord]) -> None:
        """Write records in order, and wait until the log has them.

        Raises:
            StatementError: a topic is read-only, or is gone.
            HayaseError: the log refuses a record, or cannot be reached.
        """
        batches: list[OutputBatch] = []
        for record in records:
            self._topics.check_writable(record.topic)
            if not batches or batches[-1].topic != record.topic:
                batches.append(OutputBatch(record.topic, [], [], []))
            batches[-1].keys.append(record.key)
            batches[-1].values.append(record.value)
            batches[-1].timestamps_ms.append(self._now_ms() if record.timestamp_ms is None else record.timestamp_ms)
        if not batches:
            return
        with self._lock:
            for batch in batches:
                batch.first = self.written  # records without a key take the partitions in turn
                self.written += len(batch)
            if self._writer is None:
                self._writer = self._log.writer()
            try:
                self._writer.append(batches)
            except UnknownTopicError as error:
                raise topic_is_gone(self._missing(batches, error)) from error

    def _missing(self, batches: Sequence[OutputBatch], error: UnknownTopicError) -> object:
        gone = (batch.topic for batch in batches if self._topics.partitions(batch.topic) is None)
        return next(gone, error.context.get("topic", batches[0].topic))

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
