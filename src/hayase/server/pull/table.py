"""Pull queries of tables: from the entries of a store to rows of the answer."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from hayase.core.records import Windowed
from hayase.core.windows import window_from
from hayase.serde.murmur2 import partition_for_key
from hayase.server.pull.scan import ColumnScan, RawEntry, column_scan
from hayase.server.pull.stores import PinnedStore
from hayase.server.rows import ResultColumn
from hayase.sql.analysis.access_path import FIRST_MS, LAST_MS, AccessPath, KeyLookup, KeyRange
from hayase.sql.analysis.pull import PullPlan
from hayase.sql.expressions.open_ended import may_take_seconds
from hayase.sql.expressions.rows import RowExpression, RowProjection, compile_projection, compile_row
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.functions.work_limit import is_over
from hayase.sql.plan.kept_table import KeptTable
from hayase.sql.plan.processing_log import log_failure
from hayase.state.stores.key_value import ReadOnlyKeyValueStore
from hayase.state.stores.protocol import ByteStore
from hayase.state.stores.session import ReadOnlySessionStore
from hayase.state.stores.spec import StoreSpec
from hayase.state.stores.values import ValueAndTimestamp
from hayase.state.stores.views import ReadOnlyView, as_kind, open_read_only_view
from hayase.state.stores.window import ReadOnlyWindowStore

BATCH_ROWS = 1_000
_BATCH_BYTES = 1 << 20
_SCAN_ROWS = 8_000
_SCAN_BYTES = 4 << 20
_SCAN_VALUES = 200_000
_SCAN_PART = 32
"""Entries whose size is looked at together."""
Rows = Sequence[Sequence[Any]]
Entry = tuple[Any, Any]
"""Key, with its window, and value, with its timestamp where the store has one."""


@dataclass(frozen=True)
class TablePull:
    """A pull query of a table, compiled.

    Attributes:
        plan: of the query.
        query_id: the query that makes the table.
        kept: where its rows are.
        predicate: what a row has to pass.
        projection: makes a row of the answer.
        columns: of the answer.
        make_scan: makes the scan in columns, if the query has one.
    """

    plan: PullPlan
    query_id: str
    kept: KeptTable
    predicate: RowExpression | None
    projection: RowProjection
    columns: tuple[ResultColumn, ...]
    make_scan: Callable[[], ColumnScan | None]

    @classmethod
    def of(
        cls,
        plan: PullPlan,
        query_id: str,
        kept: KeptTable,
        functions: FunctionRegistry,
        settings: Mapping[str, object],
    ) -> TablePull:
        """Compile a plan; raises StatementError for an expression that cannot be computed."""
        columns = plan.rows.columns
        predicate = None if plan.where is None else compile_row(plan.where, columns, functions, settings)
        projection = compile_projection(plan.items, columns, functions, settings)
        projection.report = _log_select
        shown = tuple(ResultColumn(column.name, column.type, column.name in plan.key) for column in plan.columns)
        make_scan = partial(column_scan, plan, kept, functions, settings)
        return cls(plan, query_id, kept, predicate, projection, shown, make_scan)

    @property
    def may_wait(self) -> bool:
        """Whether a row may take long: an expression is computed in another process, or seeks a pattern."""
        used = [expression for _, expression in self.plan.items]
        used += [] if self.plan.where is None else [self.plan.where]
        return self._is_elsewhere or any(map(may_take_seconds, used))

    @property
    def _is_elsewhere(self) -> bool:
        """Whether an expression is computed in another process, as open-ended ones and functions of statements are."""
        if self.projection.elsewhere or not self.projection.pure:
            return True
        return self.predicate is not None and (self.predicate.elsewhere is not None or not self.predicate.pure)

    def rows_of_key(self, lookup: KeyLookup, pinned: PinnedStore) -> list[list[Any]]:
        """The rows of one key of a table without windows, whatever the condition is."""
        with pinned.reading() as partitions:
            found = self._looked_up(lookup, pinned.spec, partitions)
        return list(islice(self._rows(found, None), self.plan.limit))

    def batches(self, pinned: PinnedStore) -> Generator[Rows, None, None]:
        """The rows of the answer in batches; of a live store, all entries are read before the first is given."""
        path = self._usable_path(pinned.spec)
        scan = self.make_scan() if path.lookups is None and path.range is None and not self._is_elsewhere else None
        if scan is not None:
            # An error would keep what reads the store, and so the store, open.
            with closing(_raw_batches(pinned, *self._scan_size())) as raw:
                yield from self._limited(map(scan.rows, raw))
            return
        if not pinned.is_live:
            with pinned.reading() as partitions:
                yield from self._batched(self._entries(pinned.spec, partitions))
            return
        with pinned.reading() as partitions:
            found = list(self._entries(pinned.spec, partitions))
        yield from self._batched(found)

    def _scan_size(self) -> tuple[int, int]:
        """How many entries, and bytes of them, become one batch: less of them if they become many columns."""
        columns = max(len(self.columns), 1)
        rows = min(_SCAN_ROWS, max(_SCAN_VALUES // columns, _SCAN_PART))
        if self.plan.limit is not None:
            rows = min(max(self.plan.limit, 1), rows)
        return rows, _SCAN_BYTES // columns

    def _batched(self, entries: Iterable[Entry]) -> Iterator[list[list[Any]]]:
        rows = self._rows(entries, self.predicate)
        if self.plan.limit is not None:
            rows = islice(rows, self.plan.limit)
        while batch := list(_first_rows(rows)):
            yield batch

    def _limited(self, batches: Iterator[Rows]) -> Iterator[Rows]:
        left = self.plan.limit
        while left != 0 and (batch := next(batches, None)) is not None:
            if left is not None:
                batch = batch[:left]
                left -= len(batch)
            if batch:
                yield batch

    def _rows(self, entries: Iterable[Entry], predicate: RowExpression | None) -> Iterator[list[Any]]:
        row_of, projection = self.kept.row_of, self.projection
        for key, value in entries:
            if is_over():
                return
            timestamp_ms = None
            if isinstance(value, ValueAndTimestamp):
                value, timestamp_ms = value.value, value.timestamp_ms
            row = row_of(key, value, timestamp_ms)
            if row is not None and (predicate is None or _holds(predicate, row)):
                yield list(projection(row).values())

    def _entries(self, spec: StoreSpec, partitions: Sequence[ByteStore]) -> Iterator[Entry]:
        path = self._usable_path(spec)
        if path.lookups is not None:
            return chain.from_iterable(self._looked_up(lookup, spec, partitions) for lookup in path.lookups)
        views = [open_read_only_view(spec, partition) for partition in partitions]
        if path.range is not None:
            return chain.from_iterable(_in_range(path.range, view) for view in views)
        return chain.from_iterable(map(_all, views))

    def _usable_path(self, spec: StoreSpec) -> AccessPath:
        """The plan's path; all rows, if the store does not have keys in the order, or form, that it needs."""
        path = self.plan.path
        if self.kept.is_windowed and not spec.windowed:
            return AccessPath()
        if path.range is not None and not _is_in_order_of_text(spec.key_serde.to_bytes):
            return AccessPath()
        return path

    def _looked_up(self, lookup: KeyLookup, spec: StoreSpec, partitions: Sequence[ByteStore]) -> list[Entry]:
        """The entries of a key: of the partition that it should be in, else of another one.

        A topic may be written with another partitioner, or its keys with another schema.
        """
        key = self.kept.key_of(dict(lookup.key))
        place = 0
        if len(partitions) > 1:
            place = partition_for_key(self.kept.partitioned_by.to_bytes(key), len(partitions))
        for number in (place, *(each for each in range(len(partitions)) if each != place)):
            found = _entries_of_key(open_read_only_view(spec, partitions[number]), key, lookup, spec)
            if found:
                return found
        return []


def _first_rows(rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Rows of one batch, by their number and size."""
    size_bytes = 0
    for row in islice(rows, BATCH_ROWS):
        yield row
        size_bytes += sum(len(value) for value in row if isinstance(value, str | bytes | list | dict))
        if size_bytes > _BATCH_BYTES:
            return


def _raw_batches(pinned: PinnedStore, rows: int, size_bytes: int) -> Generator[list[RawEntry], None, None]:
    """All entries as they are stored; of a live store, all are copied before the first is given.

    Args:
        pinned: the store.
        rows: at most so many in a batch.
        size_bytes: a batch ends behind so many bytes.
    """
    if pinned.is_live:
        with pinned.reading() as partitions:
            copied = [entry for partition in partitions for entry in partition.range()]
        yield from _parted(iter(copied), rows, size_bytes)
        return
    with pinned.reading() as partitions:
        yield from _parted(chain.from_iterable(partition.range() for partition in partitions), rows, size_bytes)


def _parted(entries: Iterator[RawEntry], rows: int, size_bytes: int) -> Iterator[list[RawEntry]]:
    batch: list[RawEntry] = []
    bytes_left = size_bytes
    while part := list(islice(entries, min(_SCAN_PART, rows - len(batch)))):
        batch += part
        bytes_left -= sum([len(value) for _, value in part])
        if len(batch) >= rows or bytes_left <= 0:
            yield batch
            batch, bytes_left = [], size_bytes
    if batch:
        yield batch


def _entries_of_key(view: ReadOnlyView, key: Any, lookup: KeyLookup, spec: StoreSpec) -> list[Entry]:
    if isinstance(view, ReadOnlyKeyValueStore):
        value = view.get(key)
        return [] if value is None else [(key, value)]
    if isinstance(view, ReadOnlySessionStore):
        return list(view.fetch(key))
    windows = as_kind(view, ReadOnlyWindowStore).fetch(key, max(lookup.start_from_ms, FIRST_MS), lookup.start_to_ms)
    size_ms = spec.window_size_ms or 0
    return [(Windowed(key, window_from(start, size_ms)), value) for start, value in windows]


def _holds(predicate: RowExpression, row: Mapping[str, Any]) -> bool:
    """Whether a row passes; one for which the condition fails does not."""
    try:
        return predicate(row) is True
    except Exception as error:  # a function of a user may raise anything
        log_failure("WHERE", "condition of a pull query", error)
        return False


def _log_select(name: str, error: Exception) -> None:
    log_failure("SELECT", name, error)


def _is_in_order_of_text(to_bytes: Callable[[Any], bytes]) -> bool:
    """Whether keys are written as their text alone, so that they are in order of it."""
    return to_bytes("a") == b"a"


def _in_range(wanted: KeyRange, view: ReadOnlyView) -> Iterator[Entry]:
    return iter(as_kind(view, ReadOnlyKeyValueStore).range(wanted.low, wanted.high))


def _all(view: ReadOnlyView) -> Iterator[Entry]:
    if isinstance(view, ReadOnlyWindowStore):
        return iter(view.fetch_all(FIRST_MS, LAST_MS))
    if isinstance(view, ReadOnlySessionStore):
        return iter(view.all())
    return iter(as_kind(view, ReadOnlyKeyValueStore).all())
