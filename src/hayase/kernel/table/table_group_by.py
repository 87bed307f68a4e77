"""A table's updates under new keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from hayase.core.records import Change, Record
from hayase.kernel.frame.exact_keys import equal_keys, is_exact
from hayase.kernel.frame.expressions import (
    CompiledValue,
    carried,
    compile_value,
    result_type,
    schema_of_type,
    struct_type,
    visible,
)
from hayase.kernel.frame.row_functions import RecordFunction, row_mapper
from hayase.kernel.frame.vectorized import results_of
from hayase.kernel.node.column_node import (
    KEY,
    NULL,
    OLD,
    OLD_NULL,
    ORDER,
    ColumnContext,
    ColumnNode,
    CompileContext,
    evaluate,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.kernel.table.old_and_new import ROW, both_sides
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableGroupBy, VectorizedFunction


class TableGroupByRows(OperatorRows[TableGroupBy]):
    """TableGroupBy in row form; timestamp and headers stay."""

    def __init__(self, node: ProcessorNode, operator: TableGroupBy, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        edge = self.edge
        self._value: RecordFunction = lambda record: record.value
        if operator.key is not None:
            self._key = row_mapper(self.name, operator.key, edge)
        if operator.value is not None:
            self._value = row_mapper(self.name, operator.value, edge)

    def process(self, record: Record) -> None:
        """Send the old row and the new one to the groups that they belong to.

        One that went into the history is in none.
        """
        change = record.value
        if not change.is_latest:
            return
        new, old = self._grouped(record, change.new), self._grouped(record, change.old)
        if new is not None and old is not None and _same(new[0], old[0]):
            self._send(record, new[0], Change(new[1], old[1]))
            return
        if old is not None:
            self._send(record, old[0], Change(None, old[1]))
        if new is not None:
            self._send(record, new[0], Change(new[1]))

    def _grouped(self, record: Record, value: object) -> tuple[object, object] | None:
        """The group and what goes into it; `None` if nothing does."""
        if value is None:
            return None
        mapper = self._operator.mapper
        if mapper is not None:
            group, kept = mapper(record.key, value)
        else:
            row = record.with_value(value)
            group, kept = self._key(row), self._value(row)
        return None if group is None or kept is None else (group, kept)

    def _send(self, record: Record, group: object, change: Change) -> None:
        self.ctx.forward(Record(group, change, record.timestamp_ms, record.headers))


def _same(this: object, other: object) -> bool:
    """Whether two keys are one: 1, 1.0 and True are equal in Python, but other bytes, which decide in a store."""
    if type(this) is str:
        return bool(this == other)
    return bool(this == other) and repr(this) == repr(other)


class TableGroupByColumns(ColumnNode):
    """TableGroupBy in column form.

    Args:
        key: makes the new key, or a function that makes pairs.
        value: makes the new value; `None`: the row's own.
    """

    def __init__(
        self,
        name: str,
        edge: EdgeSchema,
        output: EdgeSchema,
        key: pl.Expr | VectorizedFunction,
        value: CompiledValue | None,
    ) -> None:
        super().__init__(name, output)
        self._given = edge.value.names
        self._made = output.value.names
        self._key = key
        self._value = value

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """Up to two updates of each: the old row leaves its group, the new one comes into its own."""
        return self._updates(*both_sides(inputs[0], self._given, lambda rows: self._grouped(rows, ctx)))

    def _grouped(self, rows: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """New keys and values of rows, by number; the key is null where the row belongs to no group."""
        key, value = self._key, self._value
        if isinstance(key, VectorizedFunction):
            pairs = results_of(key, self.name, ctx, rows)
            keys = pl.when(~pl.col(NULL)).then(pl.col(KEY)).alias(KEY)
            return pairs.select(keys, *self._made).with_columns(rows[ROW])

        def made(part: pl.DataFrame) -> pl.DataFrame:
            keys = part.select(ROW, key.alias(KEY))
            if value is None:
                return keys.with_columns(part.select(self._made).get_columns())
            values = value.on(part, [ROW])
            keys = keys.with_columns(values.select(self._made).get_columns())
            return keys.with_columns(pl.when(~values[NULL]).then(pl.col(KEY)).alias(KEY))

        return evaluate(rows, made, ctx)

    def _updates(self, frame: pl.DataFrame, new: pl.DataFrame, old: pl.DataFrame) -> pl.DataFrame:
        there, was = new[KEY].is_not_null().to_numpy(), old[KEY].is_not_null().to_numpy()
        same = there & was & equal_keys(new[KEY], old[KEY])
        wanted = np.zeros(2 * frame.height, np.bool_)
        wanted[0::2], wanted[1::2] = was, there & ~same
        positions = np.flatnonzero(wanted)
        row, second = positions // 2, positions % 2
        comes = pl.Series((second == 1) | same[row])
        goes = pl.Series(second == 0)
        rows_sent = frame.select(carried(frame, key=False, windows=False))[row].with_columns(
            pl.Series(f"{ORDER}{len(order_columns(frame))}", second, pl.Int64)
        )
        new, old = new[row], old[row]
        return rows_sent.with_columns(
            pl.select(pl.when(goes).then(old[KEY]).otherwise(new[KEY]).alias(KEY)).to_series(),
            *(pl.select(pl.when(comes).then(new[name]).alias(name)).to_series() for name in self._made),
            (~comes).alias(NULL),
            *(pl.select(pl.when(goes).then(old[name]).alias(OLD + name)).to_series() for name in self._made),
            (~goes).alias(OLD_NULL),
        )


def table_group_by_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form of expressions.

    There is none for keys with fractions, of which equal ones differ in their bytes.
    """
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, TableGroupBy)
    if not edge.old_values:
        return None
    pairs = operator.mapper
    if isinstance(pairs, VectorizedFunction):
        assert pairs.key_schema is not None
        if not is_exact(struct_type(pairs.key_schema)):
            return None
        output = EdgeSchema(pairs.key_schema, pairs.schema, table=True, old_values=True)
        return TableGroupByColumns(node.name, edge, output, pairs, None)
    if operator.key is None:
        return None
    types = visible(edge)
    dtype = result_type(node.name, operator.key, types)
    if not is_exact(dtype):
        return None
    value = None if operator.value is None else compile_value(node.name, operator.value, types)
    value_schema = edge.value if value is None else value.schema
    output = EdgeSchema(schema_of_type(dtype), value_schema, table=True, old_values=True)
    return TableGroupByColumns(node.name, edge, output, operator.key, value)
