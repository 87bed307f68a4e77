"""Key-value stores with serdes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Generic

from hayase.core.type_variables import K, V
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.values import (
    KeyValue,
    PlainValues,
    TimestampedValues,
    ValueAndTimestamp,
    ValueCodec,
    key_bytes,
)


class ReadOnlyKeyValueStore(Generic[K, V]):
    """What queries see of a key-value store. Iterators go in order of the keys' bytes, as of the call.

    Raises `SerializationError` where a key cannot be written, or what is stored cannot be read, by its serde.

    Example:
        >>> from hayase.serde.serdes import Serdes
        >>> from hayase.state.environment.memory import MemoryState
        >>> data = MemoryState().begin().task("0_0").store("counts")
        >>> store = KeyValueStore(data, Serdes.string(), Serdes.long())
        >>> store.put_all([("b", 2), ("a", 1), ("c", 3)])
        >>> list(store.range("a", "b"))
        [KeyValue(key='a', value=1), KeyValue(key='b', value=2)]
    """

    def __init__(self, store: ByteStore, key_serde: Serde[K], values: ValueCodec[V]) -> None:
        self._store = store
        self._key_serde = key_serde
        self._values = values
        self._key = partial(key_bytes, key_serde)

    def get(self, key: K) -> V | None:
        """The value of a key, `None` if there is none."""
        data = self._store.get(self._key(key))
        return None if data is None else self._values.from_bytes(data)

    def range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[K, V]]:
        """Keys and values from `key_from` to `key_to`, both included; `None` is no bound."""
        return self._range(key_from, key_to, reverse=False)

    def reverse_range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[K, V]]:
        """As `range`, from the last to the first."""
        return self._range(key_from, key_to, reverse=True)

    def all(self) -> Iterator[KeyValue[K, V]]:
        """All keys and values."""
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> Iterator[KeyValue[K, V]]:
        """As `all`, from the last to the first."""
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: object, prefix_serde: Serde) -> Iterator[KeyValue[K, V]]:
        """Keys whose bytes begin with those of `prefix`, and their values."""
        start = key_bytes(prefix_serde, prefix)
        return self._decoded(self._store.range(start, behind_prefix(start)))

    def approximate_num_entries(self) -> int:
        """The number of keys."""
        return self._store.approximate_count()

    def _range(self, key_from: K | None, key_to: K | None, *, reverse: bool) -> Iterator[KeyValue[K, V]]:
        start = None if key_from is None else self._key(key_from)
        # Behind the last key: nothing lies between a key and the same with a zero byte.
        end = None if key_to is None else self._key(key_to) + b"\x00"
        return self._decoded(self._store.range(start, end, reverse=reverse))

    def _decoded(self, entries: Iterator[tuple[bytes, bytes]]) -> Iterator[KeyValue[K, V]]:
        key_of, value_of = self._key_serde.from_bytes, self._values.from_bytes
        return (KeyValue(key_of(key), value_of(value)) for key, value in entries)

    def _value(self, data: bytes | None) -> V | None:
        return None if data is None else self._values.from_bytes(data)


class _WritableKeyValueStore(ReadOnlyKeyValueStore[K, V]):
    def put(self, key: K, value: V | None) -> None:
        """Write; `None` deletes."""
        self._store.put(self._key(key), self._values.to_bytes(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Write unless the key is there; returns the value that was there."""
        data = self._key(key)
        old = self._store.get(data)
        if old is None:
            self._store.put(data, self._values.to_bytes(value))
            return None
        return self._values.from_bytes(old)

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Write several, later ones winning."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Delete; returns the value that was there."""
        data = self._key(key)
        old = self._store.get(data)
        self._store.put(data, None)
        return self._value(old)


class KeyValueStore(_WritableKeyValueStore[K, V]):
    """A store of keys and values, read and written by one task."""

    def __init__(self, store: ByteStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(store, key_serde, PlainValues(value_serde))


class TimestampedKeyValueStore(_WritableKeyValueStore[K, ValueAndTimestamp[V]]):
    """A store of keys and values with the timestamps of their last updates, read and written by one task."""

    def __init__(self, store: ByteStore, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        super().__init__(store, key_serde, TimestampedValues(value_serde))


def behind_prefix(prefix: bytes) -> bytes | None:
    """The least bytes that are behind everything that begins with the prefix; `None` if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
