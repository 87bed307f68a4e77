"""Where a read model reads from: the events of an aggregate, or the topic of a table."""

from __future__ import annotations

from typing import Generic, Protocol

from hayase.core.errors import ProcessingError
from hayase.core.records import SourceRecord
from hayase.dsl import KTable, Produced
from hayase.patterns.read_models.rows import K, TableChange, V
from hayase.patterns.recorded_events import Recorded, UnknownEvent, read_recorded
from hayase.patterns.subject_keys import SubjectKeys
from hayase.serde import Serde


class Source(Protocol):
    """What a read model reads."""

    topic: str
    keys: SubjectKeys | None

    def read(self, record: SourceRecord) -> object | None:
        """What the projection gets of a record; `None`: nothing."""
        ...


class EventSource:
    """The events of an aggregate."""

    def __init__(self, aggregate: Recorded) -> None:
        self.aggregate = aggregate
        self.topic = aggregate.events_topic
        self.keys = aggregate.keys

    def read(self, record: SourceRecord) -> object | None:
        """The event of a record; raises ProcessingError."""
        event = read_recorded(self.aggregate, record)
        if event is None:  # a record of others
            return None
        if not isinstance(event.event, UnknownEvent):
            return event
        if self.aggregate.skips_unknown_events:
            return None
        raise ProcessingError(
            "UNKNOWN_EVENT_TYPE",
            f"the program has no event {event.type!r}; add it, name it in `renamed`, or have such events left out: "
            'unknown_events="skip"',
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )


class TableSource(Generic[K, V]):
    """The changes of a table of the DSL, by way of a topic of their own, which is compacted.

    Args:
        table: of the topology; its changes are written to the topic.
        topic: its name; `PatternsApp` makes it if it has the read model.
        key_serde: of the keys.
        value_serde: of the values.
    """

    def __init__(self, table: KTable[K, V], topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self.topic = topic
        self.keys: SubjectKeys | None = None
        self._key_serde, self._value_serde = key_serde, value_serde
        table.to_stream().to(topic, Produced.with_(key_serde, value_serde))

    def read(self, record: SourceRecord) -> TableChange[K, V] | None:
        """The change of a record; raises SerializationError."""
        if record.key is None:
            return None
        value = None if record.value is None else self._value_serde.from_bytes(record.value)
        return TableChange(self._key_serde.from_bytes(record.key), value)
