"""A test driver that runs several records of a topic as one epoch, as Spark does; the plain one takes them singly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from hayase.log.protocol import RecordBatch
from hayase.testing import TopologyTestDriver
from hayase.testing.topics import RawRecord


class EpochDriver(TopologyTestDriver):
    """Runs epochs of several records."""

    @property
    def forms(self) -> Counter[str]:
        """How many sub-topologies run in each form."""
        return Counter("rows" if each.columns is None else "columns" for each in self._subtopologies.values())

    def pipe_epoch(self, records: Sequence[RawRecord]) -> None:
        """Process records of one topic in one epoch, and what they cause in others."""
        topic = records[0].topic
        offset = self._offsets[topic]
        self._offsets[topic] += len(records)
        raw = _batch(records, offset)
        for task in self._task_plans:
            inputs = [(source, raw) for source, read, _ in task.topic_partitions if read == topic]
            if inputs:
                self._run(task, inputs, {})
        self.pipe_batch([])


def _batch(records: Sequence[RawRecord], offset: int) -> RecordBatch:
    headers = [record.headers for record in records]
    return RecordBatch(
        records[0].topic,
        0,
        np.arange(offset, offset + len(records)),
        np.array([record.timestamp_ms for record in records]),
        [record.key for record in records],
        [record.value for record in records],
        headers if any(headers) else None,
    )
