"""Aggregating one epoch's rows in columns: shared by aggregates of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import polars as pl

from hayase.kernel.aggregate.built_in import built_ins, input_types, result_schema
from hayase.kernel.aggregate.built_in_loop import StepFailedError
from hayase.kernel.aggregate.built_in_numbers import INT64_MAX, INT64_MIN, BuiltIn, Sum, nulls_where, overflow
from hayase.kernel.aggregate.state_layout_columns import AggregateLayout, Stored, aggregate_layout
from hayase.kernel.frame.expressions import carried
from hayase.kernel.frame.groups import I64, Accumulate, Groups
from hayase.kernel.node.column_node import (
    HEADERS,
    KEY,
    NULL,
    OLD,
    OLD_NULL,
    ORDER,
    TS,
    ColumnContext,
    CompileContext,
    FailureHandler,
    evaluate,
    order_columns,
    order_of,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import ColumnCodec, Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import (
    BuiltInAggregate,
    StreamAggregate,
    StreamSessionAggregate,
    StreamSlidingAggregate,
    StreamWindowedAggregate,
    TableAggregate,
)

RECORD = "__record"
"""Column of rows that were made of one record (for its windows): the record's number."""

_INPUT = "__input"
_AGGREGATES = (
    StreamAggregate | StreamWindowedAggregate | StreamSlidingAggregate | StreamSessionAggregate | TableAggregate
)


class AggregateKeys(Protocol):
    """Where the rows of an aggregate's table are: by key, or by key and window."""

    def numbers(self, rows: pl.DataFrame) -> tuple[I64, int]:
        """A number for each row, equal for rows of the same place, and how many there are."""
        ...

    def read(self, rows: pl.DataFrame) -> list[bytes | None]:
        """What is stored at the places of the rows, each of another place."""
        ...

    def write(self, values: Sequence[bytes | None]) -> None:
        """Write to the places that were read last."""
        ...

    def last_read(self) -> tuple[list[bytes], list[bytes | None]]:
        """The places that were read last, each as one key, and what was stored there."""
        ...


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What came of an epoch's rows.

    Attributes:
        rows: those that went in.
        groups: by place.
        start: what was stored at the epoch's start, by group.
        last: what is stored now, by group.
        running: after each of the rows, where that was asked for.
        store_keys: where the rows are.
    """

    rows: pl.DataFrame
    groups: Groups
    start: Stored
    last: Stored
    running: Stored | None
    store_keys: AggregateKeys


@dataclass(frozen=True)
class ColumnAggregator:
    """A built-in aggregate compiled for an edge.

    Attributes:
        key_codec: column form of the store's key serde.
        caching: the last update of each place is sent at the end of the epoch, instead of every update at once.
        old_values: the old value travels along.
        read: another node looks the table up.
    """

    parts: Sequence[BuiltIn]
    inputs: Sequence[pl.Expr | None]
    schema: Schema
    key_codec: ColumnCodec
    layout: AggregateLayout
    caching: bool
    old_values: bool
    read: bool

    @classmethod
    def compile(cls, node: ProcessorNode, edge: EdgeSchema, ctx: CompileContext) -> Self | None:
        """The aggregate of a node; `None` if it, or its store, has no column form.

        Raises:
            TopologyError: an input does not fit the edge's types, or the function does not take it.
        """
        operator = node.operator
        assert isinstance(operator, _AGGREGATES)
        aggregation, spec = operator.aggregation, ctx.stores[operator.store]
        codec = spec.key_serde.columns
        if not isinstance(aggregation, BuiltInAggregate) or edge.windowed or codec is None:
            return None
        if spec.versioned:
            return None
        if (codec.schema.bare, codec.schema.fields) != (edge.key.bare, edge.key.fields):
            return None
        types = input_types(node.name, aggregation, edge)
        parts = built_ins(aggregation, types)
        layout = aggregate_layout(spec.value_serde, parts, timed=spec.kind != "session")
        if layout is None:
            return None
        return cls(
            parts,
            [field.input for field in aggregation.fields],
            result_schema(aggregation, types),
            codec,
            layout,
            ctx.caching and spec.caching,
            operator.old_values,
            node.name in ctx.read_tables,
        )

    # steps of an epoch

    def with_inputs(self, frame: pl.DataFrame, ctx: FailureHandler, *more: str) -> pl.DataFrame:
        """The frame's keys, times, order, headers and `more` columns, with the inputs; failing rows are left out."""
        names = [*carried(frame, windows=False), *more]
        inputs = [
            expression.alias(f"{_INPUT}{number}")
            for number, expression in enumerate(self.inputs)
            if expression is not None
        ]
        return evaluate(frame, lambda part: part.select(*names, *inputs), ctx)

    def run(self, rows: pl.DataFrame, store_keys: AggregateKeys, ctx: ColumnContext) -> Aggregated:
        """Read, aggregate and write.

        Args:
            rows: in order; what `with_inputs` made.
            store_keys: where the table's rows are.
            ctx: of the node.
        """
        is_running = self.read or not self.caching
        while True:
            groups = Groups(*store_keys.numbers(rows))
            start = self.layout.read(store_keys.read(rows[groups.last]))
            failing = self._failing(rows, groups, start, ctx)
            if failing is not None:
                rows = rows.filter(~failing)
                continue
            try:
                last = self._stepped(rows, groups, start, running=is_running)
            except StepFailedError as failed:
                rows = without_failed(rows, failed, ctx)
            else:
                break
        running = last if is_running else None
        if running is not None:
            last = running.gather(groups.last)
        store_keys.write(self.encoded(last))
        return Aggregated(rows, groups, start, last, running, store_keys)

    def encoded(self, rows: Stored) -> Sequence[bytes | None]:
        """The bytes of rows, `None` of those that are not there."""
        gone = rows.absent
        if not gone.any():
            return self.layout.encode(rows)
        there = iter(self.layout.encode(rows.gather(np.flatnonzero(~gone))))
        return [None if absent else next(there) for absent in gone.tolist()]

    def _stepped(self, rows: pl.DataFrame, groups: Groups, start: Stored, *, running: bool) -> Stored:
        accumulate = Accumulate(groups, running)
        values: list[pl.Series] = []
        offset = 0
        failed: StepFailedError | None = None
        for number, part in enumerate(self.parts):
            stored = start.values[offset : offset + len(part.stored_names)]
            offset += len(part.stored_names)
            try:
                values.extend(part.columns(stored, self._input(rows, number), accumulate))
            except StepFailedError as error:
                failed = error.first(failed)
        if failed is not None:
            raise failed
        return Stored(accumulate(np.maximum, start.times, rows[TS].to_numpy()), values)

    def input_values(self, rows: pl.DataFrame) -> list[pl.Series | None]:
        """The inputs that `with_inputs` made, of each field; `None`: every record counts."""
        return [
            None if expression is None else rows[f"{_INPUT}{number}"] for number, expression in enumerate(self.inputs)
        ]

    def _input(self, rows: pl.DataFrame, number: int) -> pl.Series:
        return rows[f"{_INPUT}{number}"] if self.inputs[number] is not None else rows[TS]

    def _failing(self, rows: pl.DataFrame, groups: Groups, start: Stored, ctx: ColumnContext) -> pl.Series | None:
        """Which rows must be left out, because a sum would leave 64 bits; `None` if all is well.

        As in row form, the failing record is not counted anywhere, nor in windows that come after.
        """
        largest = int(np.bincount(groups.of_row).max()) if rows.height else 0
        sums: list[_WholeSum] = []
        certain = True
        offset = 0
        for number, part in enumerate(self.parts):
            if isinstance(part, Sum) and part.can_overflow:
                so_far, inputs = start.values[offset], self._input(rows, number)
                certain = certain and not part.may_overflow(so_far, inputs, largest)
                sums.append(_WholeSum(part.name, so_far, inputs))
            offset += len(part.stored_names)
        return None if certain else _overflowing(rows, groups, sums, ctx)

    # what is sent and read

    def sent(self, done: Aggregated, ctx: ColumnContext, windows: Sequence[str] = ()) -> pl.DataFrame:
        """The frame for the children."""
        if not self.caching:
            assert done.running is not None
            return self._updates(done, done.running, windows, old=self.old_values)
        rows = done.rows.select(KEY, *windows, *_headers(done.rows))[done.groups.last]
        gone = done.last.absent
        rows = rows.with_columns(
            [
                *(nulls_where(gone, series) for series in self.visible(done.last)),
                pl.Series(NULL, gone),
                pl.Series(TS, done.last.times),
            ]
        )
        origins = done.rows.select(order_columns(done.rows))[done.groups.last]
        if ctx.spill is not None:
            keys, before = done.store_keys.last_read()
            ctx.spill.add(keys, rows, before, self._held_back, origins)
            return self._ended(rows.clear(), self.layout.read([]), ctx)
        ctx.sends_at_end(origins.filter(~gone) if gone.any() else origins)
        return self._ended(rows, done.start, ctx)

    def _held_back(self, rows: pl.DataFrame, start: list[bytes | None], ctx: ColumnContext) -> pl.DataFrame:
        return self._ended(rows, self.layout.read(start), ctx)

    def _ended(self, rows: pl.DataFrame, start: Stored, ctx: ColumnContext) -> pl.DataFrame:
        """What is sent at the end of the epoch; a row that is not there never was: such rows are left out."""
        gone = rows[NULL].to_numpy()
        if gone.any():
            rows, start = rows.filter(~gone), start.gather(np.flatnonzero(~gone))
        return self.ended(rows, start, ctx)

    def ended(self, rows: pl.DataFrame, start: Stored, ctx: ColumnContext) -> pl.DataFrame:
        """Rows without order columns as what is sent at the end of the epoch, with what was there at its start."""
        columns = self._ends(rows.height, ctx)
        if self.old_values:
            columns += self.old_columns(start)
        return rows.with_columns(columns)

    def old_columns(self, old: Stored) -> list[pl.Series]:
        """The columns of old values."""
        fields = [series.alias(OLD + series.name) for series in self.fields_of(old)]
        return [*fields, pl.Series(OLD_NULL, old.absent, pl.Boolean)]

    def _ends(self, count: int, ctx: ColumnContext) -> list[pl.Series]:
        return [
            pl.Series(f"{ORDER}0", np.full(count, ctx.input_count, np.int64)),
            pl.Series(f"{ORDER}1", np.full(count, ctx.position, np.int64)),
            pl.Series(f"{ORDER}2", np.arange(count, dtype=np.int64)),
        ]

    def _updates(self, done: Aggregated, running: Stored, windows: Sequence[str], *, old: bool) -> pl.DataFrame:
        """Every update, in order."""
        rows = done.rows.select(KEY, *windows, *_headers(done.rows), *order_columns(done.rows))
        gone = running.absent
        times = np.where(gone, done.rows[TS].to_numpy(), running.times) if gone.any() else running.times
        columns = [
            *(nulls_where(gone, series) for series in self.visible(running)),
            pl.Series(NULL, gone),
            pl.Series(TS, times),
        ]
        if old:
            before = self.visible(self._filled(done.start))
            at = done.groups.before(len(done.groups.last))
            after = self.visible(running)
            absent = np.concatenate([done.start.absent, gone])[at]
            columns += [
                nulls_where(absent, pl.concat([before_field, two]).gather(at)).alias(OLD + before_field.name)
                for before_field, two in zip(before, after, strict=True)
            ]
            columns.append(pl.Series(OLD_NULL, absent))
        return rows.with_columns(columns)

    def changes(self, done: Aggregated) -> pl.DataFrame:
        """Every update for readers of the table."""
        assert done.running is not None
        return self._updates(done, done.running, (), old=False)

    def fields_of(self, stored: Stored) -> list[pl.Series]:
        """The visible fields, null where there is no row."""
        absent = stored.absent
        return [nulls_where(absent, series) for series in self.visible(self._filled(stored))]

    def rows_of(self, stored: Stored) -> pl.DataFrame:
        """The visible fields, `__null` (no row) and `__ts`."""
        absent, fields = stored.absent, self.fields_of(stored)
        times = nulls_where(absent, pl.Series(TS, stored.times))
        return pl.DataFrame([*fields, pl.Series(NULL, absent, pl.Boolean), times])

    def _filled(self, stored: Stored) -> Stored:
        """What the initializer gives where there is no row."""
        initial = [value for part in self.parts for value in part.column_start()]
        values = [
            series if value is None else _filled(series, value)
            for series, value in zip(stored.values, initial, strict=True)
        ]
        return Stored(stored.times, values)

    def visible(self, stored: Stored) -> list[pl.Series]:
        """The fields of rows that are all there."""
        columns: list[pl.Series] = []
        offset = 0
        for part, (name, _) in zip(self.parts, self.schema.fields, strict=True):
            end = offset + len(part.stored_names)
            columns.append(part.result_column(stored.values[offset:end]).alias(name))
            offset = end
        return columns


def _filled(series: pl.Series, value: object) -> pl.Series:
    if not isinstance(series.dtype, pl.List):
        return series.fill_null(value)
    return series if not series.null_count() else series.fill_null(pl.Series([value], dtype=series.dtype).first())


def _headers(frame: pl.DataFrame) -> list[str]:
    return [HEADERS] if HEADERS in frame.columns else []


def without_failed(rows: pl.DataFrame, failed: StepFailedError, ctx: FailureHandler) -> pl.DataFrame:
    """The rows without the one on which a step failed, which is handed to the context.

    As in row form, a record that was made several rows, for its windows, is not in those that come after, either.
    """
    ctx.processing_failed(order_of(rows, failed.row), failed.error)
    out = pl.int_range(pl.len()) == failed.row
    if RECORD in rows.columns:
        out = (pl.int_range(pl.len()) >= failed.row) & (pl.col(RECORD) == rows[RECORD][failed.row])
    return rows.filter(~out)


@dataclass(frozen=True, slots=True)
class _WholeSum:
    """A sum of whole numbers: so far by group, inputs by row."""

    name: str
    so_far: pl.Series
    inputs: pl.Series


def _overflowing(rows: pl.DataFrame, groups: Groups, sums: Sequence[_WholeSum], ctx: ColumnContext) -> pl.Series | None:
    """Adds up row by row and hands what fails to the context. Which rows are to be left out; `None`: none."""
    records = (rows[RECORD] if RECORD in rows.columns else pl.Series(np.arange(rows.height))).to_list()
    so_far = [field_sums.so_far.fill_null(0).to_list() for field_sums in sums]
    inputs = [field_sums.inputs.fill_null(0).to_list() for field_sums in sums]
    failing = np.zeros(rows.height, np.bool_)
    failed: int | None = None
    for row, group in enumerate(groups.of_row.tolist()):
        if records[row] == failed:
            failing[row] = True
            continue
        totals = [field_sums[group] + more[row] for field_sums, more in zip(so_far, inputs, strict=True)]
        wrong = [
            field_sums.name
            for field_sums, total in zip(sums, totals, strict=True)
            if not INT64_MIN <= total <= INT64_MAX
        ]
        if wrong:
            failed, failing[row] = records[row], True
            ctx.processing_failed(order_of(rows, row), overflow(wrong[0]))
            continue
        for field_sums, total in zip(so_far, totals, strict=True):
            field_sums[group] = total
    return pl.Series(failing) if failing.any() else None
