"""Versioned stores with serdes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

from hayase.core.type_variables import K, V
from hayase.serde.protocol import Serde
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.values import KeyValue, key_bytes
from hayase.state.stores.versioned_bytes import LATEST, NOT_PUT, Version, VersionedBytes


class VersionedRecord(NamedTuple, Generic[V]):
    """A version of a row (Kafka Streams' `VersionedRecord`, KIP-889).

    Attributes:
        value: never null.
        timestamp_ms: from when it is valid, milliseconds (UTC), included.
        valid_to_ms: until when, not included; `None`: until further notice.
    """

    value: V
    timestamp_ms: int
    valid_to_ms: int | None = None


class ReadOnlyVersionedKeyValueStore(Generic[K, V]):
    """What queries see of a versioned store. Iterators go in order of the keys' bytes, as of the call.

    Example:
        >>> from hayase.serde.serdes import Serdes
        >>> from hayase.state.environment.memory import MemoryState
        >>> data = MemoryState().begin().task("0_0").store("prices")
        >>> store = VersionedKeyValueStore(data, Serdes.string(), Serdes.long(), history_ms=1000)
        >>> [store.put("tea", 3, 100), store.put("tea", 5, 300), store.put("tea", 4, 200)]
        [-1, -1, 300]
        >>> store.get("tea").value, store.get("tea", as_of_ms=299), store.get("tea", 99)
        (5, VersionedRecord(value=4, timestamp_ms=200, valid_to_ms=300), None)
    """

    def __init__(self, versions: VersionedBytes, key_serde: Serde[K], value_serde: Serde[V]) -> None:
        self._versions = versions
        self._key_serde = key_serde
        self._value_serde = value_serde

    def get(self, key: K, as_of_ms: int | None = None) -> VersionedRecord[V] | None:
        """The latest version of a key, or the one that was valid at a time; `None` if there is none or it was deleted.

        The latest version is kept. What was before is kept as long as the history reaches back from the
        store's own time, the greatest timestamp ever written to it: for an earlier time the answer is `None`, unless
        the latest version is older still.
        """
        data = key_bytes(self._key_serde, key)
        version = self._versions.get(data) if as_of_ms is None else self._versions.get_as_of(data, as_of_ms)
        return self._record(version)

    def get_versions(self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False) -> Iterator[VersionedRecord[V]]:
        """The versions of a key that were valid at some time from `from_ms` to `to_ms`, both included, by timestamp.

        They are those that `get` gives for these times, each once: deletes, and what is forgotten, are left out.
        """
        for version in self._versions.between(key_bytes(self._key_serde, key), from_ms, to_ms, reverse=reverse):
            if (record := self._record(version)) is not None:
                yield record

    def range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[K, VersionedRecord[V]]]:
        """Keys from `key_from` to `key_to`, both included, with their latest versions; `None` is no bound."""
        return self._range(key_from, key_to, reverse=False)

    def reverse_range(self, key_from: K | None, key_to: K | None) -> Iterator[KeyValue[K, VersionedRecord[V]]]:
        """As `range`, from the last to the first."""
        return self._range(key_from, key_to, reverse=True)

    def all(self) -> Iterator[KeyValue[K, VersionedRecord[V]]]:
        """All keys and their latest versions."""
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> Iterator[KeyValue[K, VersionedRecord[V]]]:
        """As `all`, from the last to the first."""
        return self._range(None, None, reverse=True)

    def _range(
        self, key_from: K | None, key_to: K | None, *, reverse: bool
    ) -> Iterator[KeyValue[K, VersionedRecord[V]]]:
        first = None if key_from is None else key_bytes(self._key_serde, key_from)
        last = None if key_to is None else key_bytes(self._key_serde, key_to)
        for data, version in self._versions.all(first, last, reverse=reverse):
            if (record := self._record(version)) is not None:
                yield KeyValue(self._key_serde.from_bytes(data), record)

    def _record(self, version: Version | None) -> VersionedRecord[V] | None:
        if version is None or version.value is None:
            return None
        return VersionedRecord(self._value_serde.from_bytes(version.value), version.timestamp_ms, version.valid_to_ms)


class VersionedKeyValueStore(ReadOnlyVersionedKeyValueStore[K, V]):
    """A store that keeps what the values of its keys were, read and written by one task (KIP-889).

    Args:
        store: where it is kept.
        key_serde: of the keys.
        value_serde: of the values.
        history_ms: how long what was is kept, in the store's own time.
        segment_interval_ms: what has expired is deleted by so much time at once; `None`: Kafka Streams' choice.
        on_expired: called with the number of writes that were refused because they are older than the history.
    """

    PUT_RETURN_CODE_VALID_TO_UNDEFINED = LATEST
    PUT_RETURN_CODE_NOT_PUT = NOT_PUT

    def __init__(
        self,
        store: ByteStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        *,
        history_ms: int,
        segment_interval_ms: int | None = None,
        on_expired: Callable[[int], None] | None = None,
    ) -> None:
        versions = VersionedBytes(store, history_ms, segment_interval_ms, on_expired)
        super().__init__(versions, key_serde, value_serde)

    def put(self, key: K, value: V | None, timestamp_ms: int) -> int:
        """Write a version that is valid from `timestamp_ms` on; `None` deletes from then on.

        The order of the calls does not matter: each version is valid until the next later one begins. One with the same
        timestamp is replaced.

        Returns:
            When the next version begins; `PUT_RETURN_CODE_VALID_TO_UNDEFINED` if this is the latest;
            `PUT_RETURN_CODE_NOT_PUT` if it is older than the history and was refused (and counted as a dropped record).

        Raises:
            StateError: `INVALID_TIMESTAMP`: the timestamp is negative.
            SerializationError: `NULL_KEY`.
        """
        return self._versions.put(key_bytes(self._key_serde, key), self._value_serde.serialize(value), timestamp_ms)

    def delete(self, key: K, timestamp_ms: int) -> VersionedRecord[V] | None:
        """Delete from `timestamp_ms` on: `put` of `None`. Returns the version that was valid then."""
        return self._record(self._versions.delete(key_bytes(self._key_serde, key), timestamp_ms))
