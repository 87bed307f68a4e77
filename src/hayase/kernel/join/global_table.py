"""Look up a global table, under a key made of the stream's record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each, with_keys
from hayase.kernel.frame.expressions import result_type, struct_type, visible
from hayase.kernel.frame.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.frame.row_functions import row_joiner, row_mapper
from hayase.kernel.frame.stored_columns import StoreCodec
from hayase.kernel.join.joiner_columns import JoinedValues, compile_joiner
from hayase.kernel.join.lookup_columns import matched, numbered, without_nulls
from hayase.kernel.join.lookup_rows import LookupRows
from hayase.kernel.node.column_node import KEY, NULL, ColumnContext, ColumnNode, CompileContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.table.table_rows import StoredRows
from hayase.serde.protocol import Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamGlobalTableJoin

_MAPPED = "__mapped"


class GlobalJoinRows(LookupRows[StreamGlobalTableJoin]):
    """StreamGlobalTableJoin in row form. The key mapper is not called for null values, which are dropped anyway."""

    def __init__(self, node: ProcessorNode, operator: StreamGlobalTableJoin, ctx: RowContext) -> None:
        edge, codec = ctx.schemas.get(node.parents[0]), ctx.env.store_spec(operator.store).value_serde.columns
        join = row_joiner(ctx.name, operator.joiner, edge, codec.schema if codec is not None else None)
        super().__init__(node, operator, ctx, StoredRows.of(ctx.env, operator.store), join)
        self._map_key = row_mapper(self.name, operator.key_mapper, edge)

    def process(self, record: Record) -> None:
        """Join one record with the global table as it is now."""
        self.look_up(record, self._map_key(record) if record.value is not None else None)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyCalls:
    """A callable key mapper: its argument's edge, and the schema of the keys it makes."""

    function: Callable[[Any, Any], Any]
    edge: EdgeSchema
    schema: Schema


class GlobalJoinColumns(ColumnNode):
    """StreamGlobalTableJoin in column form.

    Args:
        key: makes the keys that are looked up.
        codec: of the global table's store.
        values: makes the results.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        operator: StreamGlobalTableJoin,
        key: pl.Expr | KeyCalls,
        codec: StoreCodec,
        values: JoinedValues,
    ) -> None:
        super().__init__(name, output)
        self._operator = operator
        self._key = key
        self._codec = codec
        self._values = values

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The joined rows; null values, and for inner joins null mapped keys, are dropped and counted."""
        frame, left = inputs[0], self._operator.left
        stream = without_nulls(frame, keys=False)
        dropped = frame.height - stream.height
        stream = self._mapped(stream, ctx)
        if not left and stream[_MAPPED].null_count():
            dropped += stream[_MAPPED].null_count()
            stream = stream.filter(pl.col(_MAPPED).is_not_null())
        ctx.metrics.add(DROPPED_RECORDS, self.name, dropped)
        distinct, numbers = numbered(stream[_MAPPED])
        raw = ctx.byte_store(self._operator.store).get_many(self._codec.key_bytes(distinct[KEY]))
        rows = self._codec.read(raw).select(pl.all().gather(numbers.to_series()))
        rows = rows.with_columns(pl.col(NULL).fill_null(value=True))
        if not left:
            stream, rows = matched(stream, rows)
        return self._values.join(stream.drop(_MAPPED), rows, ctx)

    def _mapped(self, stream: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        key = self._key
        if isinstance(key, pl.Expr):
            return evaluate(stream, lambda part: part.with_columns(key.alias(_MAPPED)), ctx)
        stream = stream.with_columns(pl.col(KEY).alias(_MAPPED))
        arguments = record_keys(stream, key.edge), record_values(stream, key.edge)
        stream, results = call_each(stream, arguments, key.function, ctx)
        return with_keys(stream, results, key.schema, ctx, column=_MAPPED)


def global_join_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form; it needs one for the store, and mapped keys of the store's type."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, StreamGlobalTableJoin)
    codec = StoreCodec.of(ctx.stores[operator.store])
    if codec is None:
        return None
    key: pl.Expr | KeyCalls
    if isinstance(operator.key_mapper, pl.Expr):
        key = operator.key_mapper
        if result_type(node.name, key, visible(edge)) != struct_type(codec.key.schema):
            return None
    elif has_python_records(edge) and has_python_values(codec.key.schema):
        key = KeyCalls(operator.key_mapper, edge, codec.key.schema)
    else:
        return None
    values = compile_joiner(node.name, operator.joiner, edge, codec.value.schema, operator.schema)
    if values is None:
        return None
    output = dataclasses.replace(edge, value=values.schema)
    return GlobalJoinColumns(node.name, output, operator, key, codec, values)
