"""Rows of a versioned table in row form."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from hayase.core.metrics import DROPPED_RECORDS
from hayase.kernel.node.row_node import RowEnvironment
from hayase.kernel.table.table_rows import StoredRows
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.versioned_bytes import LATEST, NOT_PUT, Version, VersionedBytes
from hayase.state.stores.views import versioned_bytes

_TIMESTAMP = struct.Struct(">q")


class VersionedRows:
    """Rows in a versioned store. Reads see the epoch's start plus what was put since."""

    def __init__(self, versions: VersionedBytes, key_serde: Serde, value_serde: Serde) -> None:
        self._versions = versions
        self._key_serde = key_serde
        self._value_serde = value_serde

    def key_bytes(self, key: object) -> bytes | None:
        """The bytes under which a key's row is stored."""
        return self._key_serde.serialize(key)

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the latest version; `None` if there is none, or if the key is null."""
        data = self._key_serde.serialize(key)
        return None if data is None else self._row(self._versions.get(data))

    def get_as_of(self, key: object, as_of_ms: int) -> tuple[object, int] | None:
        """See VersionedTableRows."""
        data = self._key_serde.serialize(key)
        return None if data is None else self._row(self._versions.get_as_of(data, as_of_ms))

    def value(self, key: Any) -> Any:
        """The value of the latest version, `None` if there is none."""
        row = self.get(key)
        return None if row is None else row[0]

    def put(self, key: Any, value: Any, timestamp_ms: int) -> bool | None:
        """Write a version; whether it is the latest.

        `None`: it is older than the history, and was refused and counted.
        """
        placed = self._versions.put(self._key_serde.to_bytes(key), self._value_serde.serialize(value), timestamp_ms)
        return None if placed == NOT_PUT else placed == LATEST

    def _row(self, version: Version | None) -> tuple[object, int] | None:
        if version is None or version.value is None:
            return None
        return self._value_serde.deserialize(version.value), version.timestamp_ms


class VersionedRowStore:
    """Rows of an aggregate in a versioned store, under their keys' bytes.

    8 bytes of timestamp (big-endian), then the value.

    Reads see the latest versions; a row older than the history is refused and counted.
    """

    def __init__(self, env: RowEnvironment, store: str, node: str) -> None:
        self._versions = _versions(env, store, node)

    def get(self, key: bytes) -> bytes | None:
        """The latest version; `None` if there is none."""
        return self._stamped(self._versions.get(key))

    def get_as_of(self, key: bytes, as_of_ms: int) -> bytes | None:
        """The version that was valid at a time."""
        return self._stamped(self._versions.get_as_of(key, as_of_ms))

    def put_row(self, place: tuple[bytes], timestamp_ms: int, data: bytes | None) -> bool | None:
        """Write a version; whether it is the latest. `None`: it was refused."""
        placed = self._versions.put(*place, data, timestamp_ms)
        return None if placed == NOT_PUT else placed == LATEST

    @staticmethod
    def _stamped(version: Version | None) -> bytes | None:
        return (
            None if version is None or version.value is None else _TIMESTAMP.pack(version.timestamp_ms) + version.value
        )


def rows_of(env: RowEnvironment, store: str, node: str) -> StoredRows | VersionedRows:
    """The rows that a node keeps in a store of either kind; what it refuses is counted for the node."""
    spec = env.store_spec(store)
    if not spec.versioned:
        return StoredRows.of(env, store)
    return VersionedRows(_versions(env, store, node), spec.key_serde, spec.value_serde)


def key_places(env: RowEnvironment, store: str, node: str) -> ByteStore | VersionedRowStore:
    """Where an aggregate that is not windowed keeps its rows."""
    return VersionedRowStore(env, store, node) if env.store_spec(store).versioned else env.byte_store(store)


def _versions(env: RowEnvironment, store: str, node: str) -> VersionedBytes:
    count_refused = partial(env.metrics.add, DROPPED_RECORDS, node)
    return versioned_bytes(env.store_spec(store), env.byte_store(store), count_refused)
