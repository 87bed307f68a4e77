"""Rows of a table in row form: in a store, or computed from another table's rows."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from hayase.kernel.node.row_node import RowEnvironment, TableRows
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore

_TIMESTAMP = struct.Struct(">q")


class StoredRows:
    """Rows in a timestamped key-value store: 8 bytes of timestamp (big-endian), then the value as its serde writes it.

    Reads see the epoch's start plus what was put since.
    """

    def __init__(self, store: ByteStore, key_serde: Serde, value_serde: Serde) -> None:
        self._store = store
        self._key_serde = key_serde
        self._value_serde = value_serde

    @classmethod
    def of(cls, env: RowEnvironment, name: str) -> StoredRows:
        """The rows of a store of the task, or of a global table's store."""
        spec = env.store_spec(name)
        return cls(env.byte_store(name), spec.key_serde, spec.value_serde)

    def key_bytes(self, key: object) -> bytes | None:
        """The bytes under which a key's row is stored."""
        return self._key_serde.serialize(key)

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row; `None` if there is none, or if the key is null."""
        data = self._key_serde.serialize(key)
        stored = self._store.get(data) if data is not None else None
        if stored is None:
            return None
        return self._value_serde.deserialize(stored[8:]), _TIMESTAMP.unpack_from(stored)[0]

    def value(self, key: Any) -> Any:
        """The row's value, `None` if there is no row."""
        row = self.get(key)
        return None if row is None else row[0]

    def put(self, key: Any, value: Any, timestamp_ms: int) -> bool | None:
        """Write the row; a null value deletes it. True: it is the latest there is."""
        data = self._key_serde.to_bytes(key)
        value_bytes = self._value_serde.serialize(value)
        self._store.put(data, None if value_bytes is None else _TIMESTAMP.pack(timestamp_ms) + value_bytes)
        return True


class ComputedRows:
    """Rows of a table without a store: those of another table with new values; a null value is no row.

    Args:
        parent: the other table's rows.
        compute: the new value from key, value and timestamp.
    """

    def __init__(self, parent: TableRows, compute: Callable[[Any, Any, int], Any]) -> None:
        self._parent = parent
        self._compute = compute

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row; `None` if there is none."""
        return self._computed(key, self._parent.get(key))

    def get_as_of(self, key: object, as_of_ms: int) -> tuple[object, int] | None:
        """The same from the row that was valid at a time; the other table must be versioned."""
        return self._computed(key, as_versioned(self._parent).get_as_of(key, as_of_ms))

    def _computed(self, key: object, row: tuple[object, int] | None) -> tuple[object, int] | None:
        if row is None:
            return None
        value, timestamp_ms = row
        value = self._compute(key, value, timestamp_ms)
        return None if value is None else (value, timestamp_ms)


@runtime_checkable
class VersionedTableRows(TableRows, Protocol):
    """A versioned table as other nodes read it."""

    def get_as_of(self, key: object, as_of_ms: int) -> tuple[object, int] | None:
        """Value and timestamp of the row that was valid at a time.

        `None` if there was none, or that time is forgotten.
        """
        ...


def as_versioned(rows: TableRows) -> VersionedTableRows:
    """The rows of a table that is known to be versioned."""
    assert isinstance(rows, VersionedTableRows)
    return rows
