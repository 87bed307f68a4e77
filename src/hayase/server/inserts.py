"""Records that INSERT INTO … VALUES and /inserts-stream write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from hayase.core.errors import HayaseError
from hayase.log.protocol import EpochWriter, Log, OutputBatch
from hayase.server.topics import LogTopics, topic_is_gone
from hayase.sql.statements.results import ProducedRecord

_SEEN_FOR_S = 1.0
"""A topic that was there so long ago is looked for again."""


class RecordInserts:
    """Writes records to topics, one call after the other. Thread-safe.

    Args:
        log: of the topics.
        topics: which of them may be written.
        now_ms: the time of records that have none.
        monotonic: a clock that only goes forward, in seconds.
    """

    def __init__(
        self, log: Log, topics: LogTopics, now_ms: Callable[[], int], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.written = 0
        self._log = log
        self._topics = topics
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._seen_s: dict[str, float] = {}
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
                self._check_there(record.topic)
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
            except HayaseError as error:  # a producer of Kafka has many errors for a topic that has just gone
                self._seen_s.clear()
                gone = next(filter(self._is_gone, (batch.topic for batch in batches)), None)
                if gone is None:
                    raise
                raise topic_is_gone(gone) from error

    def _is_gone(self, topic: str) -> bool:
        try:
            return self._topics.partitions(topic) is None
        except HayaseError:  # the log is away, which was said already
            return False

    def _check_there(self, topic: str) -> None:
        """Refuse records of a topic that is gone: a producer of Kafka would wait half a minute for it to come back."""
        now_s = self._monotonic()
        if now_s - self._seen_s.get(topic, -_SEEN_FOR_S) < _SEEN_FOR_S:
            return
        if self._topics.partitions(topic) is None:
            raise topic_is_gone(topic)
        self._seen_s[topic] = now_s

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
