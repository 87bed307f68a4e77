"""The index of events: a store, fed from the topic of the events, that says where each event is."""

from __future__ import annotations

from typing import Any

from hayase.core.errors import ConfigError
from hayase.core.records import Record, SourceRecord
from hayase.dsl.options.stores import Stores
from hayase.patterns import cloud_events
from hayase.patterns.recorded_events import Recorded, RecordedEvent, read_recorded, version_of
from hayase.patterns.state_rows import EventKey, EventKeySerde, EventPlace, EventPlaceSerde
from hayase.processor.api import (
    ContextualProcessor,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    ProcessorContext,
)
from hayase.processor.metrics import Sensor
from hayase.state.stores.spec import StoreSpec

_APPLICATION_HEADER = cloud_events.header_of(cloud_events.APPLICATION)


class IndexSupplier:
    """Makes the processors that keep the index, and brings its store."""

    def __init__(self, aggregate: Any) -> None:
        self.aggregate = aggregate

    def __call__(self) -> IndexProcessor:
        """A processor for one task."""
        return IndexProcessor(self.aggregate.name, self.aggregate.index_store)

    def stores(self) -> list[StoreSpec]:
        """The store of the index."""
        return [Stores.key_value_store(self.aggregate.index_store, EventKeySerde(), EventPlaceSerde())]


class IndexProcessor(FixedKeyProcessor[bytes, bytes, bytes]):
    """Notes where each event is; of a version that is there twice the first counts."""

    def __init__(self, name: str, store: str) -> None:
        self._name = name
        self._store = store

    def init(self, context: FixedKeyProcessorContext[bytes, bytes]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context
        self._index = context.get_state_store(self._store)
        self._application = context.application_id.encode()
        self._recorded = False
        self._skipped: Sensor = context.metrics().add_rate_total_sensor("event-sourced", self._name, "foreign-event")

    def process(self, record: FixedKeyRecord[bytes, bytes]) -> None:
        """Note the place of one event; records of other formats are left out and counted.

        Raises:
            ConfigError: `AGGREGATE_OWNED`: two applications decide for the aggregate at once.
        """
        place, headers = self._context.record_metadata(), dict(record.headers)
        version = version_of(record.key, headers)
        if version is None:
            self._skipped.record()
            return
        self._check_application(headers.get(_APPLICATION_HEADER), record.key)
        if place is not None:
            key = EventKey(record.key.decode(), version)
            self._index.put_if_absent(key, EventPlace(place.partition, place.offset, record.timestamp_ms))

    def _check_application(self, application: bytes | None, key: bytes) -> None:
        """Refuse an event that another application has recorded behind one of this application."""
        if application == self._application:
            self._recorded = True
        elif application and self._recorded:
            raise ConfigError(
                "AGGREGATE_OWNED",
                f"application {application.decode(errors='replace')!r} has recorded an event of {self._name} "
                f"{key.decode()!r} beside this application, {self._application.decode()!r}: each of them has its own "
                "states. Stop one of them permanently, and look at what it has recorded: `hayase events verify`",
            )


class EventDecoder(ContextualProcessor[bytes, bytes, str, RecordedEvent[Any]]):
    """Turns records of the topic into events."""

    def __init__(self, aggregate: Recorded) -> None:
        self._aggregate = aggregate

    def init(self, context: ProcessorContext[str, RecordedEvent[Any]]) -> None:
        """See `Processor.init`."""
        super().init(context)
        if self._aggregate.keys is not None:
            self._aggregate.keys.bind(context.app_configs())

    def process(self, record: Record[bytes, bytes]) -> None:
        """Forward the event of one record; records of other formats are left out."""
        place = self.context.record_metadata()
        assert place is not None  # records are processed, no punctuations
        source = SourceRecord(*place, record.timestamp_ms, record.key, record.value, record.headers)
        event = read_recorded(self._aggregate, source)
        if event is None:
            return
        self.context.forward(Record(event.aggregate_id, event, record.timestamp_ms, record.headers))
