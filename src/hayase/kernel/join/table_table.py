"""Joining two tables by key: the two sides. Where their results become one table is in `table_table_merge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Change, Record
from hayase.kernel.frame.expressions import carried
from hayase.kernel.frame.row_functions import row_joiner
from hayase.kernel.join.joined_tables_columns import JoinedTables
from hayase.kernel.join.table_reader_columns import TableReader, table_reader
from hayase.kernel.node.column_node import KEY, NULL, OLD, OLD_NULL, TS, ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableJoin, TableJoiner


class JoinedRow:
    """Makes the row of two rows.

    Args:
        ctx: of the node.
        joiner: of the join.
        left: name of the left table.
        right: name of the right table.
    """

    def __init__(self, ctx: RowContext, joiner: TableJoiner, left: str, right: str) -> None:
        edge = ctx.schemas.get(right)
        self._kind = joiner.kind
        self._join = row_joiner(ctx.name, joiner.function, ctx.schemas.get(left), edge.value if edge else None)

    def __call__(self, record: Record, left: object, right: object) -> Any:
        """The row's value from the values of the two rows (`None`: there is none), `None` if there is no row."""
        if left is None and (right is None or self._kind != "outer"):
            return None
        if right is None and self._kind == "inner":
            return None
        return self._join(record.with_value(left), right)


class TableJoinRows(OperatorRows[TableJoin]):
    """TableJoin in row form.

    An update is joined with the other table's row as it is now. Nothing is sent where neither the old nor the new row
    could have had a result; else a null result is sent as a delete, whether anything was sent before or not. Updates of
    a versioned table that came out of order are dropped and counted (KIP-914).
    """

    def __init__(self, node: ProcessorNode, operator: TableJoin, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._table = ctx.table(operator.table)
        tables = (self._parent, operator.table) if operator.is_left else (operator.table, self._parent)
        self._joined = JoinedRow(ctx, operator.joiner, *tables)
        self._needs_other = needs_other(operator)

    def process(self, record: Record) -> None:
        """Take one update of the parent."""
        if record.key is None:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        change = record.value
        if not change.is_latest:
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        other_row = self._table.get(record.key)
        if other_row is None and (self._needs_other or (change.new is None and change.old is None)):
            return
        other, timestamp_ms = (None, record.timestamp_ms) if other_row is None else other_row
        at = record.with_timestamp(max(record.timestamp_ms, timestamp_ms))
        new = self._with(at, change.new, other)
        old = self._with(at, change.old, other) if self._operator.old_values else None
        self.ctx.forward(at.with_value(Change(new, old)))

    def _with(self, record: Record, own: object, other: object) -> Any:
        return self._joined(record, own, other) if self._operator.is_left else self._joined(record, other, own)


class TableJoinColumns(ColumnNode):
    """TableJoin in column form.

    Args:
        operator: says which side this is.
        reader: reads the other table.
        joined: makes the results.
    """

    def __init__(
        self, name: str, output: EdgeSchema, operator: TableJoin, reader: TableReader, joined: JoinedTables
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._reader = reader
        self._joined = joined
        self._own = (joined.left if operator.is_left else joined.right).names
        self._needs_other = needs_other(operator)

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The updates of the result; null keys are dropped and counted."""
        frame = inputs[0]
        if frame[KEY].null_count():
            ctx.metrics.add(DROPPED_RECORDS, self.name, frame[KEY].null_count())
            frame = frame.filter(pl.col(KEY).is_not_null())
        frame, other = self._reader.read(frame, ctx)
        kept = ~other[NULL]
        if not self._needs_other:
            kept |= ~(frame[NULL] & frame[OLD_NULL])
        if not kept.all():
            frame, other = frame.filter(kept), other.filter(kept)
        at = frame.with_columns(pl.max_horizontal(frame[TS], other[TS]).alias(TS))
        new, done = self._with(at, at.select(*self._own, NULL), other, ctx)
        if done is not None:
            at, other = at.filter(done), other.filter(done)
        if not self._operator.old_values:
            return at.select(carried(at)).with_columns(new.get_columns())
        own = at.select(*(pl.col(OLD + name).alias(name) for name in self._own), pl.col(OLD_NULL).alias(NULL))
        old, done = self._with(at, own, other, ctx)
        if done is not None:
            at, new = at.filter(done), new.filter(done)
        olds = old.select(pl.exclude(NULL).name.prefix(OLD), pl.col(NULL).alias(OLD_NULL))
        return at.select(carried(at)).with_columns(*new.get_columns(), *olds.get_columns())

    def _with(
        self, at: pl.DataFrame, own: pl.DataFrame, other: pl.DataFrame, ctx: ColumnContext
    ) -> tuple[pl.DataFrame, pl.Series | None]:
        left, right = (own, other) if self._operator.is_left else (other, own)
        return self._joined.join(at, left, right, ctx)


def needs_other(operator: TableJoin) -> bool:
    """Whether there is no result without the other table's row."""
    kind = operator.joiner.kind
    return kind == "inner" or (kind == "left" and not operator.is_left)


def table_join_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs one for both tables, and a topology whose order columns tell what an update sees."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableJoin)
    table = ctx.tables.get(operator.table)
    if table is None or edge.windowed or table.windowed:
        return None
    old_wanted = operator.old_values or not needs_other(operator)
    if (old_wanted and not edge.old_values) or dict(edge.key.fields) != dict(table.key.fields):
        return None
    joined = JoinedTables.compile(node.name, operator.joiner, *((edge, table) if operator.is_left else (table, edge)))
    reader = table_reader(node.name, node.parents[0], operator.table, ctx)
    if joined is None or reader is None:
        return None
    output = EdgeSchema(edge.key, joined.schema, table=True, old_values=operator.old_values)
    return TableJoinColumns(node.name, output, operator, reader, joined)
