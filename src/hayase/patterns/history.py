"""The history of an aggregate: its events, and its state at any point."""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from hayase.app.reading import StoreReading
from hayase.core.config import StreamsConfig
from hayase.core.errors import ConfigError, StateError
from hayase.core.time import epoch_ms
from hayase.log.config import log_config
from hayase.log.open import open_log
from hayase.patterns.decider import S
from hayase.patterns.event_log import EventLog, check_kept
from hayase.patterns.recorded_events import Recorded, RecordedEvent, folded
from hayase.patterns.state_rows import EVENT_VERSION_MAX, AggregateState, EventKey, EventPlace

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced

_CHECKED_EVERY_S = 5.0
"""How long a change of the topic's settings may go unnoticed by a history that is read."""
_FEW_AT_ONCE = {"consumer.fetch.message.max.bytes": "16384", "consumer.queued.min.messages": "1"}
"""Of consumers of Kafka: a call reads some events from anywhere, so what is fetched beyond them holds up the next."""


class EventHistory(Generic[S]):
    """Reads the events of one aggregate type; made by `PatternsApp.events`.

    From any process on a machine that has the states of the application, whether it runs or not. Events are found by
    an index that is one epoch behind the states. Before the first epoch is complete there are none. The log that
    they are read from stays open for the next call until this is freed; a log folder that is deleted and made again is
    not noticed.

    Example:
        >>> events = app.events("order")  # doctest: +SKIP
        >>> events.state("17", version=2)  # doctest: +SKIP
        AggregateState(id='17', version=2, state=Order(item='book', paid=False))
    """

    def __init__(self, aggregate: EventSourced[Any, Any, S], app: StoreReading) -> None:
        self._aggregate = aggregate
        self._app = app
        self._opened: _Opened | None = None
        self._opening = threading.Lock()

    def history(
        self, aggregate_id: str, *, from_version: int = 1, to_version: int | None = None
    ) -> list[RecordedEvent[Any]]:
        """The events of an aggregate in the order of their versions; none if there is no such aggregate.

        Args:
            aggregate_id: which one.
            from_version: the first.
            to_version: the last, if it is there.

        Raises:
            StateError: `NO_STATE`: the application never started with these settings.
            ProcessingError: `EVENT_UNREADABLE`.
            SourceRangeLostError: events have been removed from the topic.
            ConfigError: `EVENTS_WOULD_BE_LOST`: the topic does not keep events.
        """
        last = EVENT_VERSION_MAX if to_version is None else to_version
        return self._read([place for _, place in self._places(aggregate_id, from_version, last)])

    def state(
        self,
        aggregate_id: str,
        *,
        version: int | None = None,
        at: datetime | int | None = None,
        epoch: int | None = None,
    ) -> AggregateState[S]:
        """The state of an aggregate: as it is, or as it was at a version, a time or an epoch.

        Of an aggregate without events it is the initial state, at version 0.

        Args:
            aggregate_id: which one.
            version: after so many events.
            at: after the last event that was recorded at or before that time, by the wall clock of the epochs; an aware
                datetime, or milliseconds since 1970.
            epoch: after that epoch, from the store of states, as far as its history goes back.

        Raises:
            ConfigError: `INVALID_AS_OF`: more than one of them, or a version that is none.
            StateError: `VERSION_NOT_THERE`: the index has fewer events; also what `StreamsApp.store` raises.
            ProcessingError: `EVENT_NOT_EVOLVED`, `UNKNOWN_EVENT_TYPE`: the program cannot take an event; which one.
        """
        if sum(each is not None for each in (version, at, epoch)) > 1:
            raise ConfigError("INVALID_AS_OF", "give a version, a time or an epoch, not several of them")
        if version is None and at is None:
            store = self._app.store(self._aggregate.state_store, as_of_epoch=epoch)
            row: object = store.get(aggregate_id).value
            return row if isinstance(row, AggregateState) else self._none(aggregate_id)
        places = self._places(aggregate_id, 1, EVENT_VERSION_MAX if version is None else version)
        if version is not None and len(places) < version:
            raise StateError(
                "VERSION_NOT_THERE",
                f"{self._aggregate.name} {aggregate_id!r} has {len(places)} events in the index, and version {version} "
                "was asked for; events appear there one epoch after they are recorded",
                store=self._aggregate.index_store,
            )
        if at is not None:
            until_ms = epoch_ms(at)
            places = [(version, place) for version, place in places if place.time_ms <= until_ms]
        return folded(self._aggregate, aggregate_id, self._read([place for _, place in places]))

    def _none(self, aggregate_id: str) -> AggregateState[S]:
        return AggregateState(aggregate_id, 0, self._aggregate.initial_state())

    def _places(self, aggregate_id: str, first: int, last: int) -> list[tuple[int, EventPlace]]:
        for version in (first, last):
            if not isinstance(version, int) or not 0 <= version <= EVENT_VERSION_MAX:
                raise ConfigError("INVALID_AS_OF", f"a version is a whole number from 0 on, not {version!r}")
        keys = EventKey(aggregate_id, first), EventKey(aggregate_id, last)
        store = self._app.store(self._aggregate.index_store)
        places = [
            (row.key.version, row.value)
            for row in store.range(*keys)
            if isinstance(row.key, EventKey) and isinstance(row.value, EventPlace)
        ]
        return sorted(places, key=lambda each: each[0])

    def _read(self, places: list[EventPlace]) -> list[RecordedEvent[Any]]:
        if not places:
            return []
        found: list[RecordedEvent[Any]] = []
        events = self._opened_events()
        for partition in sorted({place.partition for place in places}):
            offsets = sorted(place.offset for place in places if place.partition == partition)
            found += events.read_at(partition, offsets)
        return sorted(found, key=lambda event: event.version)

    def _opened_events(self) -> EventLog:
        """The events, opened at the first read and kept: to open a log costs more than to read an event.

        Raises:
            UnknownTopicError: there is no such topic.
            ConfigError: `EVENTS_WOULD_BE_LOST`: see `check_kept`.
        """
        with self._opening:
            opened = self._opened
            if opened is None or opened.process_id != os.getpid():
                opened = self._opened = _Opened(self._aggregate, self._app.config)
                weakref.finalize(self, opened.close)
        opened.check_kept_if_due()
        return opened.events


class _Opened:
    """The events of an aggregate and their log, as long as a history needs them."""

    def __init__(self, aggregate: Recorded, config: StreamsConfig) -> None:
        if aggregate.keys is not None:
            aggregate.keys.bind(config)
        self.process_id = os.getpid()
        self._topic = aggregate.events_topic
        self._checked_s = float("-inf")
        place = log_config(config)
        if place.kind == "kafka":
            place = replace(place, options={**_FEW_AT_ONCE, **place.options})
        self.log = open_log(place)
        self.events = EventLog(aggregate, self.log)

    def check_kept_if_due(self) -> None:
        """Check the settings of the topic, unless that was done a moment ago: asking takes longer than reading.

        Raises:
            UnknownTopicError, ConfigError: as `check_kept`.
        """
        now_s = time.monotonic()
        if now_s - self._checked_s >= _CHECKED_EVERY_S:
            check_kept(self.log, self._topic)
            self._checked_s = now_s

    def close(self) -> None:
        """Close both; in a forked process the connections are its parent's."""
        if os.getpid() == self.process_id:
            self.events.close()
            self.log.close()
