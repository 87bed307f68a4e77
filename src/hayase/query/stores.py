"""A store of an application, read from any process of the machine: never blocks the application, never sees half an epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from hayase.core.config import StreamsConfig
from hayase.core.errors import StateError, UnknownStoreError
from hayase.core.records import Window, Windowed
from hayase.planner.build import global_unit_id, levels_of
from hayase.planner.compile import units_of
from hayase.serde.murmur2 import partition_for_key
from hayase.state.reader import BundleReader, ReaderSnapshot
from hayase.state.spec import StoreSpec
from hayase.state.values import ValueAndTimestamp
from hayase.state.views import open_read_only_view
from hayase.storage.open import open_blobs
from hayase.topology.topology import Topology

_SAME_EPOCH_TRIES = 50
_SAME_EPOCH_WAIT_S = 0.01


class StoreAnswer(NamedTuple):
    """One row: `value` is `None` if there is no such row; `timestamp_ms` is `None` then, and in stores without timestamps.

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
        epochs: the same by partition; they differ only if the application could not be caught between two epochs.
    """

    rows: tuple[StoreRow, ...]
    epoch: int
    epochs: dict[int, int]

    def __iter__(self) -> Iterator[StoreRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class _Place:
    partition: int
    task: str
    reader: BundleReader


class StoreHandle:
    """Reads one store. Cheap to keep; every call sees the last finished epoch."""

    def __init__(self, name: str, spec: StoreSpec, places: list[_Place], lineage: str) -> None:
        self.name = name
        self._spec = spec
        self._places = places
        self._lineage = lineage

    def get(self, key: Any) -> StoreAnswer:
        """The row of a key (key-value stores).

        Raises:
            SerializationError: the key is not one of the store's.
            StateError: there is no state yet, or it can not be read; WRONG_STORE_KIND for a window store.
        """
        self._want(windowed=False, call="get", instead="fetch")
        with ExitStack() as stack:
            view, epoch = self._view(stack, self._place_of(key))
            return _answer(view.get(key), epoch)

    def range(self, key_from: Any = None, key_to: Any = None) -> StoreRows:
        """Rows of keys from `key_from` to `key_to`, both included, in each partition; `None` is no bound."""
        self._want(windowed=False, call="range", instead="fetch_all")
        return self._scan(lambda view: view.range(key_from, key_to))

    def all(self) -> StoreRows:
        """All rows."""
        return self._scan(lambda view: view.all())

    def fetch(self, key: Any, time_from: datetime | int, time_to: datetime | int | None = None) -> StoreRows:
        """Windows of a key that start from `time_from` to `time_to`, both included (window stores), by start.

        Times are aware datetimes or milliseconds since the epoch. Without `time_to`: the window that starts at `time_from`.
        """
        self._want(windowed=True, call="fetch", instead="get")
        start, end = _to_ms(time_from), _to_ms(time_to if time_to is not None else time_from)
        size = self._spec.window_size_ms or 0

        def scan(view: Any) -> Iterator[tuple[Any, Any]]:
            for begin, value in view.fetch(key, start, end):
                yield _windowed(key, begin, size), value

        return self._scan(scan, [self._place_of(key)])

    def fetch_all(self, time_from: datetime | int, time_to: datetime | int) -> StoreRows:
        """Windows of all keys that start from `time_from` to `time_to`, both included (window stores)."""
        self._want(windowed=True, call="fetch_all", instead="range")
        start, end = _to_ms(time_from), _to_ms(time_to)
        return self._scan(lambda view: view.fetch_all(start, end))

    def approximate_num_entries(self) -> int:
        """About how many rows there are."""
        total = 0
        for place in self._places:
            with place.reader.snapshot() as snapshot:
                total += snapshot.store(place.task, self.name).approximate_count()
        return total

    def _want(self, *, windowed: bool, call: str, instead: str) -> None:
        if self._spec.windowed != windowed:
            raise StateError(
                "WRONG_STORE_KIND",
                f"{self.name!r} is a {self._spec.kind} store, which has no {call}(); use {instead}()",
                store=self.name,
            )

    def _place_of(self, key: Any) -> _Place:
        data = self._spec.key_serde.serialize(key)
        if data is None or len(self._places) == 1:
            return self._places[0]
        return self._places[partition_for_key(data, len(self._places))]

    def _view(self, stack: ExitStack, place: _Place) -> tuple[Any, int]:
        snapshot = stack.enter_context(place.reader.snapshot())
        self._check(snapshot)
        return open_read_only_view(self._spec, snapshot.store(place.task, self.name)), snapshot.epoch

    def _check(self, snapshot: ReaderSnapshot) -> None:
        if snapshot.lineage != self._lineage:
            raise StateError(
                "FOREIGN_STATE",
                "the local state belongs to another checkpoint of this application.id; start the application, which "
                "rebuilds it, or look at state.dir and checkpoint.dir",
                store=self.name,
            )

    def _scan(self, read: Callable[[Any], Iterator[tuple[Any, Any]]], places: list[_Place] | None = None) -> StoreRows:
        places = self._places if places is None else places
        for attempt in range(_SAME_EPOCH_TRIES):
            with ExitStack() as stack:
                views = [self._view(stack, place) for place in places]
                epochs = {place.partition: epoch for place, (_, epoch) in zip(places, views, strict=True)}
                if len(set(epochs.values())) <= 1 or attempt == _SAME_EPOCH_TRIES - 1:
                    rows = tuple(_row(key, value) for view, _ in views for key, value in read(view))
                    return StoreRows(rows, min(epochs.values(), default=-1), epochs)
            time.sleep(_SAME_EPOCH_WAIT_S)
        raise AssertionError("the last try returns")


def open_store(topology: Topology, config: StreamsConfig, name: str) -> StoreHandle:
    """The store of an application with these settings; see `StreamsApp.store`."""
    spec = topology.stores.get(name)
    if spec is None:
        raise UnknownStoreError(
            "UNKNOWN_STORE",
            f"the topology has no store {name!r}; it has {sorted(topology.stores)}. Name one with Materialized.as_(...)",
        )
    blobs = open_blobs(config.checkpoint_dir, fsync=False)
    plan, lineage = blobs.get("plan.json"), blobs.get("lineage")
    if plan is None or lineage is None:
        raise StateError(
            "NO_STATE",
            f"application {config.application_id!r} never started on {config.checkpoint_dir}; start it first",
            store=name,
        )
    unit = _unit_of(topology, name)
    folder = Path(config.state_dir) / config.application_id / "state"
    places: list[_Place] = []
    for bundle, details in json.loads(plan)["bundles"].items():
        if details["unit"] == unit:
            reader = BundleReader(folder / bundle)
            places.extend(_Place(int(task.rpartition("_")[2]), task, reader) for task in details["tasks"])
    return StoreHandle(name, spec, sorted(places, key=lambda place: place.partition), lineage.decode())


def _unit_of(topology: Topology, store: str) -> str:
    for position, table in enumerate(topology.global_tables):
        if table.store == store:
            return global_unit_id(position)
    for unit in units_of(topology, levels_of(topology)):
        if any(store in node.stores for node in unit.processors):
            return unit.id
    raise UnknownStoreError("UNKNOWN_STORE", f"no node uses the store {store!r}")


def _answer(found: Any, epoch: int) -> StoreAnswer:
    if isinstance(found, ValueAndTimestamp):
        return StoreAnswer(found.value, found.timestamp_ms, epoch)
    return StoreAnswer(found, None, epoch)


def _row(key: Any, found: Any) -> StoreRow:
    if isinstance(found, ValueAndTimestamp):
        return StoreRow(key, found.value, found.timestamp_ms)
    return StoreRow(key, found, None)


def _windowed(key: Any, start_ms: int, size_ms: int) -> Windowed[Any]:
    return Windowed(key, Window(start_ms, start_ms + size_ms))


def _to_ms(value: datetime | int) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise StateError(
                "NAIVE_DATETIME", f"{value!r} has no time zone; use an aware datetime, e.g. with tzinfo=UTC"
            )
        return int((value - datetime.fromtimestamp(0, value.tzinfo)) / timedelta(milliseconds=1))
    return value
