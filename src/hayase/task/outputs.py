"""What a task sends out during an epoch: records for topics, rows for tasks of higher levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hayase.core.records import Headers
from hayase.log.protocol import Int32Array, OutputBatch
from hayase.serde.murmur2 import partitions_for_keys
from hayase.state.delta import EdgeRow


class TopicOutput:
    """Records for one topic in the order they were sent."""

    __slots__ = ("_count", "any_headers", "headers", "keys", "partitions", "timestamps_ms", "topic", "values")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] = []
        self.any_headers = False
        self.partitions: list[int] = []
        """Where functions chose: of each record so far, -1 where the key decides; may be shorter than the others."""
        self._count = 0

    def add(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
        """One record, to the partition of its key."""
        self.keys.append(key)
        self.values.append(value)
        self.timestamps_ms.append(timestamp_ms)
        self.headers.append(headers)
        if headers:
            self.any_headers = True

    def extend(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
        headers: Sequence[Headers] | None,
    ) -> None:
        """Many records."""
        self.keys.extend(keys)
        self.values.extend(values)
        self.timestamps_ms.extend(timestamps_ms)
        if headers is None:
            self.headers.extend([()] * len(keys))
        else:
            self.headers.extend(headers)
            self.any_headers = True

    def choose(self, partitions: Sequence[int], count: int) -> None:
        """Say where the last records go.

        Args:
            partitions: of as many of the last records, -1 where the key decides.
            count: how many partitions the topic has.
        """
        self._count = count
        self.partitions.extend([-1] * (len(self.keys) - len(partitions) - len(self.partitions)))
        self.partitions.extend(partitions)

    def batch(self) -> OutputBatch:
        """What the log writes."""
        return OutputBatch(
            self.topic,
            self.keys,
            self.values,
            self.timestamps_ms,
            self._chosen() if self.partitions else None,
            self.headers if self.any_headers else None,
        )

    def _chosen(self) -> Int32Array:
        chosen = np.full(len(self.keys), -1, np.int32)
        chosen[: len(self.partitions)] = self.partitions
        by_key = partitions_for_keys(self.keys, self._count)
        return np.where(chosen < 0, by_key, chosen)


class Outputs:
    """Everything that the tasks of one bundle send out in one epoch."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicOutput] = {}
        self.rows: list[EdgeRow] = []

    def topic(self, name: str) -> TopicOutput:
        """The records of a topic; made when first used."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = TopicOutput(name)
        return found

    def batches(self) -> list[OutputBatch]:
        """The records of all topics that got any, in the order of first use."""
        return [output.batch() for output in self._topics.values() if output.keys]


def stable_groups(targets: np.ndarray, count: int) -> list[np.ndarray]:
    """Row numbers per target 0 … count-1, each ascending."""
    order = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[order], np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]
