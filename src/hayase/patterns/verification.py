"""Comparing the states of an aggregate with a fold of its events, and rebuilding them from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hayase.app.migrate import Migration, migrate_stores
from hayase.app.reading import StoreReading
from hayase.core.config import StreamsConfig
from hayase.core.errors import StateError
from hayase.patterns.event_log import EventLog
from hayase.patterns.recorded_events import RecordedEvent, evolved
from hayase.patterns.state_rows import AggregateState
from hayase.topology.topology import Topology

if TYPE_CHECKING:
    from hayase.patterns.event_sourced import EventSourced

_TOPIC_BEHIND = timedelta(seconds=5)
"""How long the topic of a running application may be behind its states: an epoch writes its outputs last."""
_DIFFERENCES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """An aggregate whose state is not what its events say."""

    aggregate_id: str
    version: int
    stored: object
    folded: object


@dataclass(slots=True)
class Verification:
    """The result of a comparison.

    Attributes:
        aggregates: how many states were compared.
        events: how many events were folded.
        different: how many states are not what their events say.
        differences: the first of these.
    """

    aggregates: int = 0
    events: int = 0
    different: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, difference: Difference) -> None:
        """Take note of a difference."""
        self.different += 1
        if len(self.differences) < _DIFFERENCES_SHOWN:
            self.differences.append(difference)


def verify(aggregate: EventSourced[Any, Any, Any], app: StoreReading) -> Verification:
    """Fold all events and compare each state with the store, at the version that it has there.

    The application may run meanwhile. Where events of an aggregate are erased in part, its other fields are compared.

    Raises:
        ProcessingError: an event cannot be read or folded; which one.
        StateError: `NO_STATE`: the application never started.
        ConfigError: `EVENTS_WOULD_BE_LOST`.
    """
    store = app.store(aggregate.state_store)
    stored: dict[str, AggregateState[Any]] = {
        row.key: row.value for row in store.all() if isinstance(row.value, AggregateState)
    }
    result, at_version = Verification(aggregates=len(stored)), dict[str, AggregateState[Any]]()

    def note(state: AggregateState[Any]) -> None:
        row = stored.get(state.id)
        if row is not None and row.version == state.version:
            at_version[state.id] = state

    with EventLog.opened(aggregate, app.config) as events:
        fold = _Fold(aggregate, events, note)
        deadline = time.monotonic() + _TOPIC_BEHIND.total_seconds()
        fold.catch_up()
        while len(at_version) < len(stored) and time.monotonic() < deadline:
            time.sleep(0.05)
            fold.catch_up()
    result.events = fold.events
    for aggregate_id, row in stored.items():
        state = at_version.get(aggregate_id)
        if state is None:
            result.add(Difference(aggregate_id, row.version, row.state, "events are missing"))
        elif state.state != row.state and not fold.differs_by_erasure(aggregate_id, state.state, row.state):
            result.add(Difference(aggregate_id, row.version, row.state, state.state))
    for aggregate_id in fold.states.keys() - stored.keys():
        if store.get(aggregate_id).value is None:  # not one that has come into being meanwhile
            result.add(Difference(aggregate_id, 0, None, fold.states[aggregate_id].state))
    return result


def rebuild(
    aggregate: EventSourced[Any, Any, Any], topology: Topology, config: StreamsConfig, *, dry_run: bool = False
) -> Migration:
    """Replace the states of an earlier `state_version` with a fold of the events, as one epoch; all or none.

    Args:
        aggregate: which.
        topology: that has it.
        config: settings of the application, which must not run.
        dry_run: write nothing, only fold and count.

    Raises:
        ProcessingError: an event cannot be read or folded; which one.
        HayaseError: what `migrate_stores` raises.
    """
    with EventLog.opened(aggregate, config) as events:
        fold = _Fold(aggregate, events, lambda state: None)
        fold.catch_up()
    return migrate_stores(topology, config, {aggregate.state_store: _folded_row(fold.states)}, dry_run=dry_run)


def _folded_row(states: Mapping[str, AggregateState[Any]]) -> Callable[[Any], AggregateState[Any]]:
    def replaced(row: Any) -> AggregateState[Any]:
        state = states.get(row["id"])
        if state is None or state.version != row["version"]:
            there = 0 if state is None else state.version
            raise StateError(
                "EVENTS_MISSING", f"the state is at version {row['version']}, and there are {there} events in the topic"
            )
        return state

    return replaced


class _Fold:
    """A fold of all events of an aggregate, in memory."""

    def __init__(
        self, aggregate: EventSourced[Any, Any, Any], events: EventLog, note: Callable[[AggregateState[Any]], None]
    ) -> None:
        self._aggregate = aggregate
        self._log = events
        self._note = note
        self._offsets = dict.fromkeys(events.partitions(), 0)
        self.states: dict[str, AggregateState[Any]] = {}
        self.events = 0
        self._erased: set[str] = set()  # aggregates with events of which a field is erased

    def catch_up(self) -> None:
        """Fold what has been recorded since."""
        for partition, end in self._log.end_offsets().items():
            for recorded in self._noting_erased(self._log.read(partition, self._offsets[partition], end)):
                key = recorded.aggregate_id
                before = self.states.get(key) or AggregateState(key, 0, self._aggregate.initial_state())
                self.states[key] = evolved(self._aggregate, before, recorded)
                self.events += 1
                self._note(self.states[key])
            self._offsets[partition] = end

    def differs_by_erasure(self, aggregate_id: str, folded: object, stored: object) -> bool:
        """Whether states differ only by personal fields, and events of the aggregate are erased in part.

        What `evolve` makes of erased fields need not be what is read in place of the erased field of a state.
        """
        if aggregate_id not in self._erased:
            return False
        types = self._aggregate.state_types
        return types.without_personal(folded) == types.without_personal(stored)

    def _noting_erased(self, events: Iterable[RecordedEvent[Any]]) -> Iterator[RecordedEvent[Any]]:
        keys = self._aggregate.keys
        before = 0 if keys is None else keys.erased_reads
        for recorded in events:
            if keys is not None and keys.erased_reads != before:
                before = keys.erased_reads
                self._erased.add(recorded.aggregate_id)
            yield recorded
