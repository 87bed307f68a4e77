"""The queries of interactive queries v2 (KIP-796, KIP-805, KIP-806, KIP-960, KIP-968, KIP-985, KIP-992)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Self

from hayase.core.errors import StateError
from hayase.core.records import Windowed
from hayase.core.time import epoch_ms
from hayase.core.type_variables import K, R, V
from hayase.core.windows import LAST_MS
from hayase.state.stores.key_value import ReadOnlyKeyValueStore
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.session import ReadOnlySessionStore
from hayase.state.stores.spec import StoreKind, StoreSpec
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.versioned import ReadOnlyVersionedKeyValueStore, VersionedRecord
from hayase.state.stores.views import ReadOnlyView, View, as_kind, open_read_only_view, with_interface
from hayase.state.stores.window import ReadOnlyWindowStore

Pairs = tuple[tuple[K, V], ...]
"""Keys and values, in the order asked for."""


def _given(key: K | None, what: str) -> K:
    if key is None:
        raise StateError(
            "INVALID_QUERY",
            f"{what}.with_key takes a key, and no row has None as its key; what has no key to ask for is a range",
        )
    return key


class UnknownQueryError(Exception):
    """A query that stores of this kind do not answer; becomes `FailureReason.UNKNOWN_QUERY_TYPE`."""


@dataclass(frozen=True, slots=True)
class QueriedStore:
    """The store of one partition, as a query sees it: after one epoch, and not to be written.

    Attributes:
        spec: what the store is.
        data: what it holds, in bytes. Valid during the query.
    """

    spec: StoreSpec
    data: ByteStore

    def view(self, *, with_timestamps: bool = True) -> ReadOnlyView:
        """The store with its serdes; without `with_timestamps` a timestamped store gives values alone."""
        return open_read_only_view(self.spec, self.data, with_timestamps=with_timestamps)

    def interface(self) -> Any:
        """A custom store with its own interface (`Stores.custom_store`); of any other store the same as `view()`."""
        return with_interface(self.spec, self.view())

    def view_of(self, kind: type[View], *, with_timestamps: bool = True) -> View:
        """As `view`, of a store that is known to be of a kind."""
        return as_kind(self.view(with_timestamps=with_timestamps), kind)

    def want(self, what: str, *kinds: StoreKind) -> None:
        """Refuse a query that asks for another kind of store."""
        if self.spec.kind not in kinds:
            raise UnknownQueryError(f"a {self.spec.kind} store does not answer a {what}")


class Query(ABC, Generic[R]):
    """A question to one partition of a store. Derive from it to ask what the built-in ones do not.

    Example:
        >>> class CountKeys(Query[int]):
        ...     def answer(self, store):
        ...         return sum(1 for _ in store.view().all())
    """

    @abstractmethod
    def answer(self, store: QueriedStore) -> R:
        """The answer of one partition.

        Called once for each partition, while nothing changes in it; must not keep the store.

        What it raises becomes that partition's failure: `UnknownQueryError` as UNKNOWN_QUERY_TYPE, all else as
        STORE_EXCEPTION.
        """


@dataclass(frozen=True, slots=True)
class _OfAKey(Query[R]):
    key: object

    @classmethod
    def with_key(cls, key: object) -> Self:
        """The query for one key; raises StateError for `None`."""
        return cls(_given(key, cls.__name__))

    def skip_cache(self) -> Self:
        """As in Kafka Streams; makes no difference: answers are those of finished epochs, which no cache hides."""
        return self


@dataclass(frozen=True, slots=True)
class KeyQuery(_OfAKey):
    """The value of a key in a key-value store, without its timestamp; `None` if there is none, or in another partition.

    Example:
        >>> KeyQuery.with_key("ada")
        KeyQuery(key='ada')
    """

    def answer(self, store: QueriedStore) -> Any:
        """See the class."""
        store.want("KeyQuery", "key_value", "timestamped_key_value")
        return store.view_of(ReadOnlyKeyValueStore, with_timestamps=False).get(self.key)


@dataclass(frozen=True, slots=True)
class TimestampedKeyQuery(_OfAKey["ValueAndTimestamp | None"]):
    """As `KeyQuery`, with the timestamp: a `ValueAndTimestamp`. Timestamped stores only; all DSL stores are."""

    def answer(self, store: QueriedStore) -> ValueAndTimestamp | None:
        """See the class."""
        store.want("TimestampedKeyQuery", "timestamped_key_value")
        value: ValueAndTimestamp | None = store.view_of(ReadOnlyKeyValueStore).get(self.key)
        return value


@dataclass(frozen=True, slots=True)
class _OfARange(Query[Pairs]):
    lower: object = None
    upper: object = None
    descending: bool = False

    @classmethod
    def with_range(cls, lower: object, upper: object) -> Self:
        """From `lower` to `upper`; `None` is no bound."""
        return cls(lower, upper)

    @classmethod
    def with_lower_bound(cls, lower: object) -> Self:
        """From `lower` on."""
        return cls(lower, None)

    @classmethod
    def with_upper_bound(cls, upper: object) -> Self:
        """Up to `upper`."""
        return cls(None, upper)

    @classmethod
    def with_no_bounds(cls) -> Self:
        """Everything."""
        return cls()

    def with_ascending_keys(self) -> Self:
        """By the keys' bytes, which is the default."""
        return replace(self, descending=False)

    def with_descending_keys(self) -> Self:
        """By the keys' bytes, the greatest first."""
        return replace(self, descending=True)

    def _pairs(self, store: QueriedStore, *, with_timestamps: bool) -> Pairs:
        view = store.view_of(ReadOnlyKeyValueStore, with_timestamps=with_timestamps)
        return tuple((view.reverse_range if self.descending else view.range)(self.lower, self.upper))


@dataclass(frozen=True, slots=True)
class RangeQuery(_OfARange):
    """Keys between two bounds, both included and each optional, with values without timestamps (key-value stores).

    Pairs go by the keys' bytes, ascending unless asked otherwise, inside one partition. They are all read when the
    query is.

    Example:
        >>> RangeQuery.with_range("a", "c").with_descending_keys()
        RangeQuery(lower='a', upper='c', descending=True)
    """

    def answer(self, store: QueriedStore) -> Pairs:
        """See the class."""
        store.want("RangeQuery", "key_value", "timestamped_key_value")
        return self._pairs(store, with_timestamps=False)


@dataclass(frozen=True, slots=True)
class TimestampedRangeQuery(_OfARange):
    """As `RangeQuery`, each value with its timestamp: `ValueAndTimestamp`. Timestamped stores only."""

    def answer(self, store: QueriedStore) -> Pairs:
        """See the class."""
        store.want("TimestampedRangeQuery", "timestamped_key_value")
        return self._pairs(store, with_timestamps=True)


@dataclass(frozen=True, slots=True)
class WindowKeyQuery(Query[Pairs]):
    """Windows of a key that start between two times, both included (window stores): start in ms and value, by start.

    Values of a timestamped store, as the DSL's are, come as `ValueAndTimestamp`.
    """

    key: object
    start_from_ms: int
    start_to_ms: int

    @classmethod
    def with_key_and_window_start_range(
        cls, key: object, time_from: datetime | int, time_to: datetime | int
    ) -> WindowKeyQuery:
        """Ask for that key; times are aware datetimes, or milliseconds since the epoch.

        Raises StateError for `None`.
        """
        return cls(_given(key, cls.__name__), epoch_ms(time_from), epoch_ms(time_to))

    def answer(self, store: QueriedStore) -> Pairs:
        """See the class."""
        store.want("WindowKeyQuery", "window", "timestamped_window")
        return tuple(store.view_of(ReadOnlyWindowStore).fetch(self.key, self.start_from_ms, self.start_to_ms))


@dataclass(frozen=True, slots=True)
class WindowRangeQuery(Query["Pairs[Windowed]"]):
    """Windows of all keys (window stores), or the sessions of one key (session stores): windowed key and value.

    Windows are those that start between two times, both included, in the order of `ReadOnlyWindowStore.fetch_all`, with
    `ValueAndTimestamp` of a timestamped store; sessions go by their end.
    """

    start_from_ms: int = 0
    start_to_ms: int = 0
    key: object = None

    @classmethod
    def with_window_start_range(cls, time_from: datetime | int, time_to: datetime | int) -> WindowRangeQuery:
        """Ask for those; times are aware datetimes, or milliseconds since the epoch."""
        return cls(epoch_ms(time_from), epoch_ms(time_to))

    @classmethod
    def with_key(cls, key: object) -> WindowRangeQuery:
        """The query for the sessions of one key.

        Raises:
            StateError: `INVALID_QUERY`: the key is `None`.
        """
        return cls(key=_given(key, cls.__name__))

    def answer(self, store: QueriedStore) -> Pairs[Windowed]:
        """See the class."""
        if self.key is not None:
            store.want("WindowRangeQuery of a key", "session")
            return tuple(store.view_of(ReadOnlySessionStore).fetch(self.key))
        store.want("WindowRangeQuery of times", "window", "timestamped_window")
        return tuple(store.view_of(ReadOnlyWindowStore).fetch_all(self.start_from_ms, self.start_to_ms))


@dataclass(frozen=True, slots=True)
class VersionedKeyQuery(Query["VersionedRecord | None"]):
    """The version of a key at a time, the latest unless `as_of` says when (versioned stores, KIP-960).

    `None`: nothing, or it is forgotten.

    Example:
        >>> VersionedKeyQuery.with_key("tea").as_of(1_000)
        VersionedKeyQuery(key='tea', as_of_ms=1000)
    """

    key: object
    as_of_ms: int | None = None

    @classmethod
    def with_key(cls, key: object) -> VersionedKeyQuery:
        """The query for one key; raises StateError for `None`."""
        return cls(_given(key, cls.__name__))

    def as_of(self, time: datetime | int) -> VersionedKeyQuery:
        """At that time: an aware datetime, or milliseconds since the epoch."""
        return replace(self, as_of_ms=epoch_ms(time))

    def answer(self, store: QueriedStore) -> VersionedRecord | None:
        """See the class."""
        store.want("VersionedKeyQuery", "versioned_key_value")
        return store.view_of(ReadOnlyVersionedKeyValueStore).get(self.key, self.as_of_ms)


@dataclass(frozen=True, slots=True)
class MultiVersionedKeyQuery(Query["tuple[VersionedRecord, ...]"]):
    """The versions of a key that were valid in a span of time (versioned stores, KIP-968).

    The versions that were valid at some time of it.

    Both ends are included and optional. They are the answers that `VersionedKeyQuery` gives for all these times, each
    once, by their timestamps, the oldest first unless asked otherwise: deletes are left out, and so is what is
    forgotten. Only the latest version has no `valid_to_ms`.

    Example:
        >>> MultiVersionedKeyQuery.with_key("tea").from_time(1_000).with_descending_timestamps()
        MultiVersionedKeyQuery(key='tea', from_ms=1000, to_ms=None, descending=True)
    """

    key: object
    from_ms: int | None = None
    to_ms: int | None = None
    descending: bool = False

    @classmethod
    def with_key(cls, key: object) -> MultiVersionedKeyQuery:
        """The query for one key; raises StateError for `None`."""
        return cls(_given(key, cls.__name__))

    def from_time(self, time: datetime | int | None) -> MultiVersionedKeyQuery:
        """From that time on: an aware datetime, milliseconds since the epoch, or `None` for no bound."""
        return replace(self, from_ms=None if time is None else epoch_ms(time))

    def to_time(self, time: datetime | int | None) -> MultiVersionedKeyQuery:
        """Up to that time, included: an aware datetime, milliseconds since the epoch, or `None` for no bound."""
        return replace(self, to_ms=None if time is None else epoch_ms(time))

    def with_ascending_timestamps(self) -> MultiVersionedKeyQuery:
        """The same query with the oldest version first, which is the default."""
        return replace(self, descending=False)

    def with_descending_timestamps(self) -> MultiVersionedKeyQuery:
        """The same query with the latest version first."""
        return replace(self, descending=True)

    def answer(self, store: QueriedStore) -> tuple[VersionedRecord, ...]:
        """See the class."""
        store.want("MultiVersionedKeyQuery", "versioned_key_value")
        view = store.view_of(ReadOnlyVersionedKeyValueStore)
        first_ms, last_ms = self.from_ms or 0, LAST_MS if self.to_ms is None else self.to_ms
        return tuple(view.get_versions(self.key, first_ms, last_ms, reverse=self.descending))
