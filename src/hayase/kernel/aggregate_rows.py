"""Updating one row of an aggregate in row form: read, aggregate, write, emit. Shared by plain and windowed aggregates."""

from __future__ import annotations

import struct
from typing import Any, Protocol

from hayase.core.records import Change, Record
from hayase.kernel.row_aggregation import RowAggregation
from hayase.kernel.rows import TableEmitter

_TIMESTAMP = struct.Struct(">q")


class Places(Protocol):
    """Where rows are kept: a ByteStore (a place is a key) or WindowBytes (key and window start)."""

    def get(self, *place: Any) -> bytes | None:
        """What is there."""
        ...

    def put(self, *place_and_value: Any) -> Any:
        """Write the last argument; `None` deletes."""
        ...


class AggregateRows:
    """The rows of an aggregate's table: 8 bytes of timestamp (big-endian), then what the aggregation keeps.

    Args:
        caching: updates are held back by `emitter`.
        old_values: somebody wants old values.
    """

    def __init__(
        self, store: Places, aggregation: RowAggregation, emitter: TableEmitter, *, caching: bool, old_values: bool
    ) -> None:
        self._get, self._put = store.get, store.put
        self._aggregation = aggregation
        self._is_shown_as_kept = type(aggregation).visible is RowAggregation.visible
        self._emitter = emitter
        self._caching = caching
        self._old_values = old_values

    def update(self, place: tuple[Any, ...], record: Record[Any, Any], inputs: Any) -> None:
        """Take one record into the row.

        Args:
            place: of the row in the store.
            record: under the key of the row; its value is not looked at.
            inputs: what the aggregation made of the record.

        Raises:
            Exception: whatever user code raises; nothing is written then.
        """
        aggregation = self._aggregation
        found = self._get(*place)
        timestamp_ms = record.timestamp_ms
        if found is None:
            state = aggregation.start()
        else:
            (stored_ms,) = _TIMESTAMP.unpack_from(found)
            timestamp_ms = max(timestamp_ms, stored_ms)
            state = aggregation.load(found[8:])
        new = aggregation.step(state, inputs)
        data = None if new is None else aggregation.dump(new)
        if self._old_values and new is state and found is not None:  # user code may have changed that very object
            state = aggregation.load(found[8:])
        self._put(*place, None if data is None else _TIMESTAMP.pack(timestamp_ms) + data)
        if found is None or not (self._caching or self._old_values):
            state = None
        change = Change(new, state) if self._is_shown_as_kept else Change(self._visible(new), self._visible(state))
        self._emitter.emit(Record(record.key, change, timestamp_ms, record.headers), place)

    def get(self, place: tuple[Any, ...]) -> tuple[Any, int] | None:
        """Value and timestamp of a row; `None` if there is none."""
        found = self._get(*place)
        if found is None:
            return None
        value = self._visible(self._aggregation.load(found[8:]))
        return value, _TIMESTAMP.unpack_from(found)[0]

    def _visible(self, state: Any) -> Any:
        return None if state is None else self._aggregation.visible(state)
