"""Topics of an embedded log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from hayase.core.records import TopicPartition
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogConfig, OutputBatch

_BATCH = 100_000


class EmbeddedTopics:
    """The `Topics` of an embedded log.

    Args:
        folder: of the log.
    """

    def __init__(self, folder: Path) -> None:
        self.arguments = ["--log-dir", str(folder)]
        self._log = open_log(LogConfig("embedded", str(folder)))

    def create(self, name: str, partitions: int) -> None:
        """See Topics."""
        self._log.create_topic(name, partitions)

    def delete(self, prefix: str) -> None:
        """See Topics."""
        for name in self._log.topics():
            if name.startswith(prefix):
                self._log.delete_topic(name)

    def load(self, name: str, records: Iterable[tuple[str, str | bytes, int]]) -> None:
        """See Topics."""
        writer = self._log.writer()
        left = iter(records)
        while some := list(islice(left, _BATCH)):
            keys: list[bytes | None] = [key.encode() for key, _, _ in some]
            values: list[bytes | None] = [value.encode() if isinstance(value, str) else value for _, value, _ in some]
            writer.append([OutputBatch(name, keys, values, [time_ms for _, _, time_ms in some])])
        writer.close()

    def progress(self, application_id: str, source: str, target: str) -> EmbeddedProgress:
        """See Topics."""
        return EmbeddedProgress(self._log, application_id, self._all(source), self._all(target))

    def read(self, name: str) -> Iterator[tuple[bytes, bytes | None]]:
        """See Topics."""
        reader = self._log.reader()
        partitions = self._all(name)
        starts, ends = self._log.start_offsets(partitions), self._log.end_offsets(partitions)
        for partition in partitions:
            for batch in reader.fetch(partition, starts[partition], ends[partition]):
                for key, value in zip(batch.keys, batch.values, strict=True):
                    yield key or b"", value
        reader.close()

    def close(self) -> None:
        """See Topics."""
        self._log.close()

    def _all(self, name: str) -> list[TopicPartition]:
        return [TopicPartition(name, number) for number in range(self._log.describe([name])[name].partitions)]


class EmbeddedProgress:
    """Committed input and visible output of one application.

    Args:
        log: where the topics are.
        application_id: the group whose offsets say what has been processed.
        source: partitions of the input; their length is read once, here.
        target: partitions of the output.
    """

    def __init__(
        self, log: Log, application_id: str, source: list[TopicPartition], target: list[TopicPartition]
    ) -> None:
        self._log = log
        self._application_id = application_id
        self._source = source
        self._target = target
        self.input_end = sum(log.end_offsets(source).values())

    def processed(self) -> int:
        """Input records below the committed offsets of the group, over all partitions."""
        committed = self._log.group_offsets(self._application_id)
        return sum(committed.get(partition, 0) for partition in self._source)

    def output_end(self) -> int:
        """Records in the output."""
        return sum(self._log.end_offsets(self._target).values())
