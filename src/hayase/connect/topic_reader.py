"""Topics that a source task reads: what users ask of it there, and the answers to what it wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hayase.connect.exceptions import ConnectError, RetriableError
from hayase.connect.model import RawKeyValue
from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.protocol import Log, LogReader


class TopicReader:
    """Reads topics. Belongs to one thread.

    Args:
        log: of the task.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reader: LogReader | None = None

    def read(self, topic: str, offset: int) -> tuple[list[RawKeyValue], int]:
        """The records of a topic from an offset on, and the offset behind them; a topic that is absent has none.

        Raises:
            ConnectError: `SEVERAL_PARTITIONS`: their records have no order.
            RetriableError: the log cannot be read.
        """
        with _retriable(topic):
            return self._read(topic, offset)

    def read_partition(self, topic: str, partition: int, offset: int) -> tuple[list[RawKeyValue], int]:
        """The records of a partition from an offset on, and the offset behind them.

        Raises:
            RetriableError: the log cannot be read.
        """
        with _retriable(topic):
            return self._read_partition(TopicPartition(topic, partition), offset)

    def end_offsets(self, topic: str) -> list[int]:
        """The end of each partition; a topic that is absent has none.

        Raises:
            RetriableError: the log cannot be read.
        """
        with _retriable(topic):
            info = self._log.describe([topic]).get(topic)
            partitions = [TopicPartition(topic, number) for number in range(0 if info is None else info.partitions)]
            ends = self._log.end_offsets(partitions)
            return [ends[partition] for partition in partitions]

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic; `None`: it is absent.

        Raises:
            RetriableError: the log cannot be read.
        """
        with _retriable(topic):
            info = self._log.describe([topic]).get(topic)
            return None if info is None else info.topic_id

    def _read(self, topic: str, offset: int) -> tuple[list[RawKeyValue], int]:
        info = self._log.describe([topic]).get(topic)
        if info is None:
            return [], offset
        if info.partitions != 1:
            raise ConnectError(
                "SEVERAL_PARTITIONS",
                f"the topic {topic} has {info.partitions} partitions, and must have one: what is asked for in it has "
                "an order. Make it again, or name another topic",
                topic=topic,
            )
        return self._read_partition(TopicPartition(topic, 0), offset)

    def _read_partition(self, partition: TopicPartition, offset: int) -> tuple[list[RawKeyValue], int]:
        first, end = self._log.start_offsets([partition])[partition], self._log.end_offsets([partition])[partition]
        start = first if end < offset else max(offset, first)  # beyond its end: the topic was made again
        if end <= start:
            return [], start
        if self._reader is None:
            self._reader = self._log.reader()
        batches = self._reader.fetch(partition, start, end)
        return [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)], end

    def close(self) -> None:
        """Let go of connections."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


@contextlib.contextmanager
def _retriable(topic: str) -> Iterator[None]:
    try:
        yield
    except LogError as error:
        raise RetriableError(error.condition, f"the topic {topic} cannot be read: {error.message}") from error
