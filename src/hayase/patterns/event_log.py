"""The topic of the events of an aggregate: its settings, and reading it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, SourceRangeLostError, UnknownTopicError
from hayase.core.records import TopicPartition
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.log.protocol import Log, LogReader
from hayase.patterns.recorded_events import Recorded, RecordedEvent, read_event, read_recorded

KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic of events: nothing is ever removed."""
_SAME_READ_MAX_GAP = 256


class EventLog:
    """Reads the events of one aggregate from their topic."""

    def __init__(self, aggregate: Recorded, log: Log) -> None:
        self._aggregate = aggregate
        self._log = log
        self._reader: LogReader | None = None
        self._reading = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def opened(cls, aggregate: Recorded, config: StreamsConfig) -> Iterator[EventLog]:
        """The events as the log of an application has them, closed at the end.

        Raises:
            UnknownTopicError: there is no such topic.
            ConfigError: `EVENTS_WOULD_BE_LOST`: see `check_kept`.
        """
        if aggregate.keys is not None:
            aggregate.keys.bind(config)
        log = open_log(log_config(config))
        try:
            check_kept(log, aggregate.events_topic)
            events = cls(aggregate, log)
            try:
                yield events
            finally:
                events.close()
        finally:
            log.close()

    def close(self) -> None:
        """Close what reads; the log is the caller's."""
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def partitions(self) -> list[TopicPartition]:
        """The partitions of the topic."""
        topic = self._aggregate.events_topic
        return [TopicPartition(topic, number) for number in range(self._log.describe([topic])[topic].partitions)]

    def end_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition ends now."""
        return self._log.end_offsets(self.partitions())

    def count(self) -> int:
        """How many events there are, about: markers of transactions count on Kafka."""
        return sum(self.end_offsets().values())

    def read(self, partition: TopicPartition, start: int, end: int) -> Iterator[RecordedEvent[Any]]:
        """The events of a range of offsets; records of others are left out.

        Raises:
            ProcessingError: `EVENT_UNREADABLE`.
            SourceRangeLostError: `SOURCE_RANGE_LOST`: events have been removed from the topic.
        """
        if start >= end:
            return
        reader = self._log.reader()
        try:
            for batch in reader.fetch(partition, start, end):
                for row in range(len(batch)):
                    recorded = read_recorded(self._aggregate, batch.record(row))
                    if recorded is not None:
                        yield recorded
        finally:
            reader.close()

    def read_at(self, partition: int, offsets: Sequence[int]) -> list[RecordedEvent[Any]]:
        """The events at offsets, which ascend; raises as `read`. The reader is kept; one call at a time."""
        place = TopicPartition(self._aggregate.events_topic, partition)
        found: list[RecordedEvent[Any]] = []
        with self._reading:
            if self._reader is None:
                self._reader = self._log.reader()
            for run in _runs(offsets):
                wanted = set(run)
                # Read before any is decoded: what an error leaves half read would keep its connection.
                for batch in list(self._reader.fetch(place, run[0], run[-1] + 1)):
                    rows = [row for row, offset in enumerate(batch.offsets.tolist()) if offset in wanted]
                    found += [read_event(self._aggregate, batch.record(row)) for row in rows]
        if len(found) != len(offsets):
            raise SourceRangeLostError(
                "SOURCE_RANGE_LOST",
                f"of {len(offsets)} events only {len(found)} are in the topic; the others have been removed",
                topic=place.topic,
                partition=partition,
            )
        return found


def check_kept(log: Log, topic: str) -> None:
    """Refuse a topic of events that would lose some.

    Raises:
        UnknownTopicError: there is no such topic.
        ConfigError: `EVENTS_WOULD_BE_LOST`: they expire, or are compacted; with the setting to change.
    """
    if topic not in log.describe([topic]):
        raise UnknownTopicError(
            "UNKNOWN_TOPIC",
            f"topic {topic!r} does not exist; PatternsApp makes it when it starts, or with create_topics()",
            topic=topic,
        )
    settings = log.topic_config(topic)
    wrong = [
        f"{name}={settings[name]}"
        for name, harmless in (("retention.ms", "-1"), ("retention.bytes", "-1"))
        if settings.get(name, harmless) != harmless
    ]
    if "compact" in settings.get("cleanup.policy", ""):
        wrong.append(f"cleanup.policy={settings['cleanup.policy']}")
    if wrong:
        changes = " ".join(f"-c {name}={value}" for name, value in KEPT_FOR_EVER.items())
        raise ConfigError(
            "EVENTS_WOULD_BE_LOST",
            f"topic {topic!r} holds events and has {', '.join(wrong)}: events would be lost, and with them what "
            f"happened. Set {', '.join(f'{name}={value}' for name, value in KEPT_FOR_EVER.items())}, e.g. "
            f"`hayase topics alter {topic} {changes}`",
            topic=topic,
        )


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    """Offsets that are read together.

    Example:
        >>> _runs([1, 2, 9000])
        [[1, 2], [9000]]
    """
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= _SAME_READ_MAX_GAP:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs
