"""What a task sends out during an epoch: records for topics, rows for tasks of higher levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hayase.core.records import Headers
from hayase.log.protocol import OutputBatch
from hayase.state.delta import EdgeRow


class TopicOutput:
    """Records for one topic in the order they were sent."""

    __slots__ = ("any_headers", "headers", "keys", "timestamps_ms", "topic", "values")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps_ms: list[int] = []
        self.headers: list[Headers] = []
        self.any_headers = False

    def add(self, key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers) -> None:
        """One record."""
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

    def batch(self) -> OutputBatch:
        """What the log writes."""
        return OutputBatch(
            self.topic, self.keys, self.values, self.timestamps_ms, None, self.headers if self.any_headers else None
        )


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
