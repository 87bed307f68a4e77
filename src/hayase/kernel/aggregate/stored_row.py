"""Updating one row of an aggregate in row form: read, aggregate, write, emit.

Shared by plain and windowed aggregates.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol

from hayase.core.records import Change, Record
from hayase.kernel.aggregate.aggregator_rows import RowAggregator
from hayase.kernel.table.versioned_rows import VersionedRowStore

_TIMESTAMP = struct.Struct(">q")


def timestamp_of(stored: bytes) -> int:
    """The timestamp of a stored row."""
    (timestamp_ms,) = _TIMESTAMP.unpack_from(stored)
    return int(timestamp_ms)


class RowStore(Protocol):
    """Where rows are kept: a ByteStore (a place is a key) or WindowBytes (key and window start)."""

    def get(self, *place: Any) -> bytes | None:
        """What is there."""
        ...

    def put(self, *place_and_value: Any) -> Any:
        """Write the last argument; `None` deletes."""
        ...


class Emitter(Protocol):
    """Takes the updates of an aggregate's rows and decides when they are sent, as TableEmitter does."""

    def emit(self, record: Record, place: object = None) -> None:
        """Take an update of the row at a place."""
        ...

    def flush(self) -> None:
        """End of the epoch."""
        ...


RowWriter = Callable[[tuple[Any, ...], int, bytes | None], bool | None]
"""Writes what an aggregation keeps with the row's timestamp; whether that is the latest.

`None`: it is too old and was refused.
"""


def row_writer(store: RowStore | VersionedRowStore) -> RowWriter:
    """How rows of an aggregate are written; only versions are ever refused or not the latest."""
    if isinstance(store, VersionedRowStore):
        return store.put_row
    put = store.put

    def put_row(place: tuple[object, ...], timestamp_ms: int, data: bytes | None) -> bool:
        put(*place, None if data is None else _TIMESTAMP.pack(timestamp_ms) + data)
        return True

    return put_row


class AggregateRows:
    """The rows of an aggregate's table: 8 bytes of timestamp (big-endian), then what the aggregation keeps.

    Args:
        caching: updates are held back by `emitter`.
        old_values: a node downstream wants old values.
    """

    def __init__(
        self,
        store: RowStore | VersionedRowStore,
        aggregation: RowAggregator,
        emitter: Emitter,
        *,
        caching: bool,
        old_values: bool,
    ) -> None:
        self._get, self._put_row = store.get, row_writer(store)
        self._aggregation = aggregation
        self._is_shown_as_kept = type(aggregation).visible is RowAggregator.visible
        self._emitter = emitter
        self._caching = caching
        self._old_values = old_values

    def update(self, place: tuple[Any, ...], record: Record, inputs: Any) -> None:
        """Take one record into the row.

        Args:
            place: of the row in the store.
            record: under the key of the row; its value is not looked at.
            inputs: what the aggregation made of the record.

        Raises:
            Exception: whatever user code raises; nothing is written then.
        """
        self.advance(place, self._get(*place), record, inputs)

    def advance(
        self,
        place: tuple[object, ...],
        stored: bytes | None,
        record: Record,
        inputs: object,
        begin_with: bytes | None = None,
    ) -> None:
        """As `update` of a row that was read already.

        Args:
            place: see `update`.
            stored: the row as it is stored; `None` if there is none.
            record: see `update`.
            inputs: see `update`.
            begin_with: the stored row that a new one begins as, without its timestamp; `None`: begin with nothing.
        """
        aggregation = self._aggregation
        timestamp_ms = record.timestamp_ms
        if stored is not None:
            (stored_ms,) = _TIMESTAMP.unpack_from(stored)
            timestamp_ms = max(timestamp_ms, stored_ms)
        state = self._state(stored, begin_with)
        new = aggregation.step(state, inputs)
        data = None if new is None else aggregation.dump(new)
        if self._old_values and new is state and stored is not None:  # user code may have changed that very object
            state = self._state(stored, begin_with)
        is_latest = self._put_row(place, timestamp_ms, data)
        if is_latest is None:
            return
        if stored is None or not (self._caching or self._old_values):
            state = None
        if not self._is_shown_as_kept:
            new, state = self._visible(new), self._visible(state)
        change = Change(new, state, is_latest)
        self._emitter.emit(Record(record.key, change, timestamp_ms, record.headers), place)

    def begin(self, place: tuple[object, ...], stored: bytes, record: Record) -> None:
        """Copy a stored row, with its timestamp, to a new place, for a record under the key of the new row."""
        self._put_row(place, timestamp_of(stored), stored[8:])
        change = Change(self._visible(self._aggregation.load(stored[8:])))
        self._emitter.emit(Record(record.key, change, timestamp_of(stored), record.headers), place)

    def _state(self, in_store: bytes | None, begin_with: bytes | None) -> Any:
        stored = begin_with if in_store is None else in_store
        return self._aggregation.start() if stored is None else self._aggregation.load(stored[8:])

    def get(self, place: tuple[Any, ...]) -> tuple[Any, int] | None:
        """Value and timestamp of a row; `None` if there is none."""
        stored = self._get(*place)
        return None if stored is None else self.read(stored)

    def read(self, stored: bytes) -> tuple[Any, int]:
        """Value and timestamp of a stored row."""
        return self._visible(self._aggregation.load(stored[8:])), timestamp_of(stored)

    def _visible(self, state: object) -> Any:
        return None if state is None else self._aggregation.visible(state)
