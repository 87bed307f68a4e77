"""Event times of input records before they are processed: the test driver takes the oldest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hayase.core.errors import SerializationError
from hayase.core.metrics import Metrics
from hayase.log.protocol import RecordBatch
from hayase.processor.timestamps import ConsumedRecord
from hayase.task.clocks import StateClocks
from hayase.task.compiled_subtopology import CompiledSource, CompiledSubtopology
from hayase.task.event_time import extract_times

SKIPPED = -1
"""The time of a record that its source skips, or fails on: in Kafka Streams it never is the head of its queue."""


def event_time_ms(source: CompiledSource, raw: RecordBatch, clocks: StateClocks, wall_clock_ms: int) -> int:
    """The event time that a source gives to one record; `SKIPPED` if it gives none."""
    if source.extractor.kind == "record" and source.extractor.on_invalid != "partition_time":
        return max(int(raw.timestamps_ms[0]), SKIPPED)
    try:
        content = source.key_serde.deserialize_many(raw.keys), source.value_serde.deserialize_many(raw.values)
        times, kept = extract_times(
            source.extractor, source.name, raw, np.arange(1), content,
            clocks=clocks, metrics=Metrics(), wall_clock_ms=wall_clock_ms,
        )  # fmt: skip
    except SerializationError:  # it is raised, or handled, when the record is processed
        return SKIPPED
    return int(times[0]) if kept is None or kept[0] else SKIPPED


class _AskedOnce:
    """An extractor of the user; what it gave for the current record is remembered."""

    def __init__(self, function: Callable[[ConsumedRecord, int], int]) -> None:
        self._function = function
        self._last: tuple[str, int] | None = None
        self._time = 0

    def __call__(self, record: ConsumedRecord, partition_time_ms: int) -> int:
        """The function's result, of one call for each record."""
        if self._last != (record.topic, record.offset):
            self._time = self._function(record, partition_time_ms)
            self._last = record.topic, record.offset
        return self._time


def with_extractors_asked_once(subtopology: CompiledSubtopology) -> CompiledSubtopology:
    """The sub-topology with callable timestamp extractors that run once a record, in the driver or its source."""

    def asked_once(source: CompiledSource) -> CompiledSource:
        extractor = source.extractor
        if extractor.kind != "callable" or extractor.function is None:
            return source
        return replace(source, extractor=replace(extractor, function=_AskedOnce(extractor.function)))

    return replace(subtopology, sources=tuple(map(asked_once, subtopology.sources)))
