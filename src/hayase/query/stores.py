"""A store of an application, read from any process of the machine.

Never blocks the application, never sees half an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec
import polars as pl

from hayase.core.errors import StateError
from hayase.core.records import Windowed
from hayase.core.time import epoch_ms
from hayase.core.windows import window_from
from hayase.query.checkpoint import Checkpoint, state_of_store, subtopology_of_store
from hayase.query.lazy_partitions import LazyPartitions
from hayase.query.source import WAIT_S, StateSource
from hayase.serde.murmur2 import partition_for_key
from hayase.state.environment.reader import ReaderSnapshot
from hayase.state.stores.key_value import ReadOnlyKeyValueStore
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.session import ReadOnlySessionStore
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.versioned import ReadOnlyVersionedKeyValueStore, VersionedRecord
from hayase.state.stores.views import ReadOnlyView, as_kind, open_read_only_view
from hayase.state.stores.window import ReadOnlyWindowStore
from hayase.task.time_to_live import live_store
from hayase.topology.topology import Topology

_LAST_MS = 2**62 - 1
_KEPT = (bytes, datetime, date, time, timedelta, Decimal)
"""Types that Polars has columns for."""


class StoreAnswer(NamedTuple):
    """One row: `value` is `None` if there is no such row.

    `timestamp_ms` is `None` then, and in stores without timestamps.

    `epoch` is the last epoch that the answer takes into account.
    """

    value: Any
    timestamp_ms: int | None
    epoch: int


class StoreRow(NamedTuple):
    """One row of a range; `key` is a `Windowed` key in window stores."""

    key: Any
    value: Any
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Rows of a range: partition by partition, inside a partition in the order of the serialized keys.

    Attributes:
        rows: the rows.
        epoch: the last epoch that all partitions take into account.
        epochs: the same by partition; they differ only if the application could not be caught between two epochs and
            there is no follower.
    """

    rows: tuple[StoreRow, ...]
    epoch: int
    epochs: dict[int, int]

    def __iter__(self) -> Iterator[StoreRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a frame, in their order.

        Columns: `key`, of windowed keys the key inside; `window_start` and `window_end` of these (`Datetime("ms",
        "UTC")`; `end` of a session is its last record); `value`, a struct where values have fields; `timestamp`
        (`Datetime("ms", "UTC")`, null in stores without). Types are those that Polars finds in the values; without rows
        they are `Null`.

        Example:
            >>> StoreRows((StoreRow("ada", {"n": 2}, 5),), 1, {0: 1}).to_polars()["value"].struct.field("n").to_list()
            [2]
        """
        windows = [row.key.window if isinstance(row.key, Windowed) else None for row in self.rows]
        keys = [row.key.key if isinstance(row.key, Windowed) else row.key for row in self.rows]
        columns = {"key": pl.Series(_plain(keys), strict=False)}
        if any(window is not None for window in windows):
            columns["window_start"] = _times([None if each is None else each[0] for each in windows])
            columns["window_end"] = _times([None if each is None else each[1] for each in windows])
        columns["value"] = pl.Series(_plain([row.value for row in self.rows]), strict=False)
        columns["timestamp"] = _times([row.timestamp_ms for row in self.rows])
        return pl.DataFrame(columns)


def _plain(values: Sequence[object]) -> list[object]:
    """Dataclasses and structs as dicts, which become structs."""
    return [msgspec.to_builtins(each, builtin_types=_KEPT) if _has_fields(each) else each for each in values]


def _has_fields(value: object) -> bool:
    return is_dataclass(value) or isinstance(value, msgspec.Struct)


def _times(times_ms: list[int | None]) -> pl.Series:
    return pl.Series(times_ms, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))


@dataclass(frozen=True, slots=True)
class PartitionLocation:
    """Where a partition is; `bundle` is what the source calls the state that holds it."""

    partition: int
    task: str
    bundle: str


class StoreHandle:
    """Reads one store. Cheap to keep; every call sees the last finished epoch, or the one it was opened as of."""

    def __init__(self, name: str, spec: StoreSpec, places: list[PartitionLocation], source: StateSource) -> None:
        self.name = name
        self._spec = spec
        self._places = places
        self._source = source

    @property
    def places(self) -> Sequence[PartitionLocation]:
        """The location of each partition."""
        return self._places

    @property
    def spec(self) -> StoreSpec:
        """The description of the store: kind, serdes, retention."""
        return self._spec

    def get(self, key: object, as_of_timestamp: datetime | int | None = None) -> StoreAnswer:
        """The row of a key (key-value stores).

        Args:
            key: of the row.
            as_of_timestamp: versioned stores: the row that was valid at that event time, an aware datetime or
                milliseconds since the epoch (Kafka Streams' `VersionedKeyQuery`); no row if the history does not reach
                back so far.

        Raises:
            SerializationError: the key is not of the store's type.
            StateError: there is no state yet, or it cannot be read; WRONG_STORE_KIND for a window store, and with a
                timestamp for one that is not versioned.
        """
        self._want(windowed=False, call="get", instead="fetch")
        if as_of_timestamp is not None and not self._spec.versioned:
            raise StateError(
                "WRONG_STORE_KIND",
                f"{self.name!r} is a {self._spec.kind} store, which does not know what its rows were; leave "
                "as_of_timestamp out, or keep the table in a versioned store",
                store=self.name,
            )
        as_of_ms = None if as_of_timestamp is None else epoch_ms(as_of_timestamp)
        place = self._place_of(key)
        with self._source.one(place.bundle) as snapshot:
            view = self._view(place, snapshot)
            if isinstance(view, ReadOnlyVersionedKeyValueStore):
                return _answer(view.get(key, as_of_ms), snapshot.epoch)
            return _answer(as_kind(view, ReadOnlyKeyValueStore).get(key), snapshot.epoch)

    def epoch(self) -> int:
        """The last epoch that answers take into account now; -1 before the first."""
        with self._source.pin({place.bundle for place in self._places}, strict=False) as snapshots:
            return min((snapshot.epoch for snapshot in snapshots.values()), default=-1)

    def range(self, key_from: object = None, key_to: object = None, *, limit: int | None = None) -> StoreRows:
        """Rows of keys from `key_from` to `key_to`, both included, in each partition; `None` is no bound.

        With `limit` at most so many are read; so have `all` and `fetch_all`.
        """
        self._want(windowed=False, call="range", instead="fetch_all")
        return self._scan(lambda view: _range(view, key_from, key_to), limit=limit)

    def to_polars(self, *, limit: int | None = None) -> pl.DataFrame:
        """All rows as a frame, those of a window store too: see `StoreRows.to_polars`.

        Example:
            >>> app.store("spending").to_polars()  # doctest: +SKIP
        """
        rows = self.fetch_all(0, _LAST_MS, limit=limit) if self._spec.windowed else self.all(limit=limit)
        return rows.to_polars()

    def all(self, *, limit: int | None = None) -> StoreRows:
        """All rows."""
        return self._scan(lambda view: view.all(), limit=limit)

    def fetch(
        self, key: object, time_from: datetime | int | None = None, time_to: datetime | int | None = None
    ) -> StoreRows:
        """Windows of a key that start from `time_from` to `time_to`, both included, by start; without times all.

        For window and session stores.
        Times are aware datetimes or milliseconds since the epoch. Without `time_to`: the window that starts at
        `time_from`. Of a session store: the sessions that overlap that time, by end.
        """
        self._want(windowed=True, call="fetch", instead="get")
        if time_from is None:
            start, end = 0, _LAST_MS if time_to is None else epoch_ms(time_to)
        else:
            start, end = epoch_ms(time_from), epoch_ms(time_to if time_to is not None else time_from)
        if self._spec.kind == "session":
            return self._scan(
                lambda view: as_kind(view, ReadOnlySessionStore).find_sessions(key, start, end), [self._place_of(key)]
            )
        size = self._spec.window_size_ms or 0

        def scan(view: ReadOnlyView) -> Iterator[tuple[object, object]]:
            for begin, value in as_kind(view, ReadOnlyWindowStore).fetch(key, start, end):
                yield Windowed(key, window_from(begin, size)), value

        return self._scan(scan, [self._place_of(key)])

    def fetch_all(self, time_from: datetime | int, time_to: datetime | int, *, limit: int | None = None) -> StoreRows:
        """Windows of all keys that start from `time_from` to `time_to`, both included.

        Sessions that overlap that time.
        """
        self._want(windowed=True, call="fetch_all", instead="range")
        start, end = epoch_ms(time_from), epoch_ms(time_to)
        if self._spec.kind == "session":
            return self._scan(
                lambda view: as_kind(view, ReadOnlySessionStore).find_sessions_range(None, None, start, end),
                limit=limit,
            )
        return self._scan(lambda view: as_kind(view, ReadOnlyWindowStore).fetch_all(start, end), limit=limit)

    def fetch_session(self, key: object, session_start: datetime | int, session_end: datetime | int) -> StoreAnswer:
        """The session of a key with exactly these bounds (session stores)."""
        self._want_sessions("fetch_session")
        start, end = epoch_ms(session_start), epoch_ms(session_end)
        place = self._place_of(key)
        with self._source.one(place.bundle) as snapshot:
            view = as_kind(self._view(place, snapshot), ReadOnlySessionStore)
            return _answer(view.fetch_session(key, start, end), snapshot.epoch)

    def find_sessions(
        self, key: object, earliest_session_end: datetime | int, latest_session_start: datetime | int
    ) -> StoreRows:
        """Sessions of a key that end and start within these bounds, by end (session stores).

        Those that end at `earliest_session_end` or later and start at `latest_session_start` or earlier.
        """
        self._want_sessions("find_sessions")
        return self.fetch(key, earliest_session_end, latest_session_start)

    def approximate_num_entries(self) -> int:
        """About how many rows there are.

        In a versioned store with all their versions, with a TTL some that have expired.
        """
        total = 0
        for place in self._places:
            with self._source.one(place.bundle) as snapshot:
                total += snapshot.store(place.task, self.name).approximate_count()
        return total

    def _want(self, *, windowed: bool, call: str, instead: str) -> None:
        if self._spec.windowed != windowed:
            raise StateError(
                "WRONG_STORE_KIND",
                f"{self.name!r} is a {self._spec.kind} store, which has no {call}(); use {instead}()",
                store=self.name,
            )

    def _want_sessions(self, call: str) -> None:
        if self._spec.kind != "session":
            raise StateError(
                "WRONG_STORE_KIND",
                f"{self.name!r} is a {self._spec.kind} store, which has no {call}(); use "
                f"{'fetch' if self._spec.windowed else 'get'}()",
                store=self.name,
            )

    def _place_of(self, key: object) -> PartitionLocation:
        data = self._spec.key_serde.serialize(key)
        if data is None or len(self._places) == 1:
            return self._places[0]
        return self._places[partition_for_key(data, len(self._places))]

    def _view(self, place: PartitionLocation, snapshot: ReaderSnapshot) -> ReadOnlyView:
        return open_read_only_view(self._spec, self.data(place, snapshot))

    def data(self, place: PartitionLocation, snapshot: ReaderSnapshot) -> ByteStore:
        """A partition in bytes, without the rows that have expired."""
        return live_store(self._spec, partial(snapshot.store, place.task))

    @contextmanager
    def pinned(self, max_seconds: float = 10.0, wait_s: float = WAIT_S) -> Iterator[tuple[int, Sequence[ByteStore]]]:
        """All partitions in bytes, in order, after one and the same epoch, and that epoch; valid inside of the `with`.

        Args:
            max_seconds: how long they may be read.
            wait_s: how long it may take until partitions of one epoch are there.

        Raises:
            StateError: `EPOCHS_DIFFER`: see `StoreReading.pin`.
        """
        bundles = {place.bundle for place in self._places}
        with self._source.pin(bundles, strict=True, max_seconds=max_seconds, wait_s=wait_s) as snapshots:
            epoch = min((snapshot.epoch for snapshot in snapshots.values()), default=-1)
            yield epoch, [self.data(place, snapshots[place.bundle]) for place in self._places]

    def lazy_partitions(self) -> LazyPartitions:
        """All partitions in bytes, each of which is taken when it is asked for first; to be closed.

        They may be after different epochs, and nothing waits until they are not: for the row of one key.
        """
        return LazyPartitions(len(self._places), self._partition)

    @contextmanager
    def _partition(self, number: int) -> Iterator[tuple[int, ByteStore]]:
        place = self._places[number]
        with self._source.one(place.bundle) as snapshot:
            yield snapshot.epoch, self.data(place, snapshot)

    def _scan(
        self,
        read: Callable[[ReadOnlyView], Iterator[tuple[object, object]]],
        places: list[PartitionLocation] | None = None,
        limit: int | None = None,
    ) -> StoreRows:
        places = self._places if places is None else places
        with self._source.pin({place.bundle for place in places}, strict=False) as snapshots:
            epochs = {place.partition: snapshots[place.bundle].epoch for place in places}
            views = [self._view(place, snapshots[place.bundle]) for place in places]
            rows = tuple(_row(key, value) for key, value in islice(chain.from_iterable(map(read, views)), limit))
            return StoreRows(rows, min(epochs.values(), default=-1), epochs)


def open_store(topology: Topology, checkpoint: Checkpoint, name: str, source: StateSource) -> StoreHandle:
    """A store as a source has it.

    Raises:
        UnknownStoreError: the topology has no such store.
    """
    subtopology = subtopology_of_store(topology, name)
    places = [
        PartitionLocation(int(task.rpartition("_")[2]), task, state_of_store(topology, name, bundle))
        for bundle in checkpoint.bundles_of(subtopology)
        for task in checkpoint.tasks[bundle]
    ]
    return StoreHandle(name, topology.stores[name], sorted(places, key=lambda place: place.partition), source)


def _range(view: ReadOnlyView, key_from: object, key_to: object) -> Iterator[tuple[object, object]]:
    if isinstance(view, ReadOnlyVersionedKeyValueStore):
        return view.range(key_from, key_to)
    return as_kind(view, ReadOnlyKeyValueStore).range(key_from, key_to)


def _answer(value: object, epoch: int) -> StoreAnswer:
    if isinstance(value, ValueAndTimestamp | VersionedRecord):
        return StoreAnswer(value.value, value.timestamp_ms, epoch)
    return StoreAnswer(value, None, epoch)


def _row(key: object, value: object) -> StoreRow:
    if isinstance(value, ValueAndTimestamp | VersionedRecord):
        return StoreRow(key, value.value, value.timestamp_ms)
    return StoreRow(key, value, None)
