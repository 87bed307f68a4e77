"""The left side of a foreign-key join in column form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.kernel.foreign_key.asked_rows import Asked, AskedRows
from hayase.kernel.foreign_key.left_rows import digest_of
from hayase.kernel.frame.callables import call_each, with_keys
from hayase.kernel.frame.exact_keys import equal_keys, is_exact
from hayase.kernel.frame.expressions import carried, result_type, struct_type, visible
from hayase.kernel.frame.key_columns import key_bytes
from hayase.kernel.frame.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.frame.vectorized import keys_of, results_of
from hayase.kernel.join.joined_tables_columns import JoinedTables
from hayase.kernel.join.table_reader_columns import TableReader, table_reader
from hayase.kernel.node.column_node import (
    KEY,
    NULL,
    OLD_NULL,
    ORDER,
    ColumnContext,
    ColumnNode,
    CompileContext,
    evaluate,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.table.old_and_new import ROW, both_sides
from hayase.serde.protocol import ColumnCodec, Schema
from hayase.serde.subscription_columns import (
    DIGEST,
    GONE,
    INSTRUCTION,
    PARTITION,
    PRIMARY_KEY,
    RIGHT,
    AnswerSchema,
    subscription_schema,
)
from hayase.serde.subscriptions import Instruction
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeyResolve, ForeignKeySubscribe, TableJoiner, VectorizedFunction


def _digests(codec: ColumnCodec, frame: pl.DataFrame) -> pl.Series:
    """The digest of each value, null where there is none."""
    data = codec.encode(frame.select(codec.schema.names), frame[NULL])
    return pl.Series(DIGEST, list(map(digest_of, data)), dtype=pl.Binary)


def _digesting(codec: ColumnCodec | None, value: Schema) -> ColumnCodec | None:
    """The codec, if it can write such values."""
    if codec is None or codec.schema.bare != value.bare or dict(codec.schema.fields) != dict(value.fields):
        return None
    return codec


@dataclass(frozen=True, slots=True)
class _ColumnAskedRows:
    """What was asked last, in column form.

    Attributes:
        store: name of the store.
        codec: of left keys.
    """

    store: str
    codec: ColumnCodec

    @classmethod
    def of(cls, store: str, ctx: CompileContext) -> _ColumnAskedRows | None:
        """`None` if the serde of left keys has no column form."""
        codec = ctx.stores[store].key_serde.columns
        return None if codec is None else cls(store, codec)

    def ask(self, keys: pl.Series, digests: pl.Series, were_there: pl.Series, ctx: ColumnContext) -> np.ndarray:
        """Keep the digests of updates; which of their rows had a result before the first update of the key."""
        rows, encoded = AskedRows(ctx.byte_store(self.store)), key_bytes(keys, self.codec)
        had_result: dict[bytes, bool] = {}
        for key, asked, was_there in zip(encoded, rows.get_many(encoded), were_there.to_list(), strict=True):
            had_result.setdefault(key, was_there if asked is None else asked.has_result)
        found = [had_result[key] for key in encoded]
        rows.put_many(encoded, list(map(Asked, digests.to_list(), found)))
        return np.array(found, np.bool_)

    def take(
        self, frame: pl.DataFrame, rows: pl.DataFrame, digested: ColumnCodec, ctx: ColumnContext, *, is_left: bool
    ) -> tuple[pl.Series, pl.Series]:
        """Which answers count, and which give no result; what they say is kept.

        Args:
            frame: the answers.
            rows: the left row of each.
            digested: column form of the serde of left values, for rows of a checkpoint that is older than the store.
            ctx: has the store.
            is_left: whether a left row without a right row has a result.
        """
        kept, keys = AskedRows(ctx.byte_store(self.store)), key_bytes(frame[KEY], self.codec)
        asked = kept.get_many(keys)
        last = pl.Series(DIGEST, [None if each is None else each.digest for each in asked], dtype=pl.Binary)
        unknown = pl.Series([each is None for each in asked], dtype=pl.Boolean)
        if unknown.any():
            last = last.zip_with(~unknown, _digests(digested, rows))
        left_gone = rows[NULL] | last.is_null()
        nothing = frame[GONE] & left_gone if is_left else frame[GONE]
        counts = frame[DIGEST].eq_missing(last) & (frame[GONE] | ~left_gone)
        now = list(map(Asked, last.to_list(), (~nothing).to_list()))
        changed = [at for at, counted in enumerate(counts.to_list()) if counted]
        kept.put_many([keys[at] for at in changed], [now[at] for at in changed])
        return counts, nothing


class ForeignKeySubscribeColumns(ColumnNode):
    """ForeignKeySubscribe in column form.

    Args:
        edge: of the left table.
        digested: column form of the serde of left values.
        foreign: schema of foreign keys.
        asked: what was asked last.
    """

    def __init__(
        self,
        name: str,
        edge: EdgeSchema,
        output: EdgeSchema,
        operator: ForeignKeySubscribe,
        digested: ColumnCodec,
        foreign: Schema,
        asked: _ColumnAskedRows,
    ) -> None:
        super().__init__(name, output)
        self._edge = edge
        self._names = edge.value.names
        self._operator = operator
        self._digested = digested
        self._foreign = foreign
        self._asked = asked

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """Up to two subscriptions of each update: what the old row asked for is taken back, the new one asks."""
        frame, new, old = both_sides(inputs[0], self._names, lambda rows: self._extracted(rows, ctx))
        asks, asked = new[KEY].is_not_null().to_numpy(), old[KEY].is_not_null().to_numpy()
        same = asks & asked & equal_keys(new[KEY], old[KEY])
        there = ~(frame[NULL] & frame[OLD_NULL]).to_numpy()
        digests = _digests(self._digested, frame)
        has_result = self._asked.ask(frame[KEY], digests, ~frame[OLD_NULL], ctx)
        if self._operator.left:
            first = np.where(asked & ~same, int(Instruction.UNSUBSCRIBE), -1)
            second = np.where(there, int(Instruction.ANSWER_ALWAYS), -1)
        else:
            dropped = ~asks & ~frame[NULL].to_numpy()
            ctx.metrics.add(DROPPED_RECORDS, self.name, int(dropped.sum()))
            last = np.where(asks, int(Instruction.UNSUBSCRIBE), int(Instruction.UNSUBSCRIBE_AND_ANSWER))
            first = np.where(asked & ~same, last, -1)
            always = asked & ~same
            again = np.where(always | has_result, int(Instruction.ANSWER_ALWAYS), int(Instruction.ANSWER_IF_THERE))
            second = np.where(asks | (has_result & there & ~asked), again, -1)
        return self._sent(frame, digests, new[KEY], old[KEY], (first, second), ctx)

    def _extracted(self, rows: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """The foreign keys of rows, by number."""
        extractor = self._operator.extractor
        if isinstance(extractor, pl.Expr):
            return evaluate(rows, lambda part: part.select(ROW, extractor.alias(KEY)), ctx)
        if isinstance(extractor, VectorizedFunction):
            extracted = results_of(extractor, self.name, ctx, rows)
            return rows.select(ROW).with_columns(keys_of(extracted, extractor.schema))
        arguments = record_keys(rows, self._edge), record_values(rows, self._edge)
        kept, results = call_each(rows.select(ROW, *order_columns(rows)), arguments, extractor, ctx)
        return with_keys(kept, results, self._foreign, ctx).select(ROW, KEY)

    def _sent(
        self,
        frame: pl.DataFrame,
        digests: pl.Series,
        new: pl.Series,
        old: pl.Series,
        instructions: tuple[np.ndarray, np.ndarray],
        ctx: ColumnContext,
    ) -> pl.DataFrame:
        every = np.stack(instructions, axis=1).reshape(-1)
        positions = np.flatnonzero(every >= 0)
        row, second = positions // 2, positions % 2
        fields = [
            pl.Series(INSTRUCTION, every[positions], pl.Int8),
            digests.gather(row),
            pl.Series(PARTITION, np.full(len(positions), ctx.partition), pl.Int32),
            frame[KEY].gather(row).alias(PRIMARY_KEY),
        ]
        is_new = pl.Series(second == 1)
        key = pl.select(pl.when(is_new).then(new.gather(row)).otherwise(old.gather(row)).alias(KEY)).to_series()
        kept = frame.select(carried(frame, key=False))[row]
        order = pl.Series(f"{ORDER}{len(order_columns(frame))}", second, pl.Int64)
        return kept.with_columns(order, key, *fields, pl.lit(value=False).alias(NULL))


def foreign_key_subscribe_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs one of the serdes, and foreign keys of which equal ones have equal bytes."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, ForeignKeySubscribe)
    foreign = operator.serdes.key.columns
    if edge.windowed or not edge.old_values or foreign is None:
        return None
    digested = _digesting(operator.serdes.value.columns, edge.value)
    kept = struct_type(foreign.schema)
    if digested is None or not is_exact(kept):
        return None
    if isinstance(operator.extractor, pl.Expr):
        if result_type(node.name, operator.extractor, visible(edge)) != kept:
            return None
    elif not (has_python_records(edge) and has_python_values(foreign.schema)):
        return None
    asked = _ColumnAskedRows.of(operator.asked_rows, ctx)
    if asked is None:
        return None
    output = EdgeSchema(foreign.schema, subscription_schema(edge.key))
    return ForeignKeySubscribeColumns(node.name, edge, output, operator, digested, foreign.schema, asked)


class ForeignKeyResolveColumns(ColumnNode):
    """ForeignKeyResolve in column form.

    Args:
        reader: reads the left table.
        joined: makes the results.
        digested: column form of the serde of left values.
        asked: what was asked last.
        is_left: whether a left row without a right row has a result.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        reader: TableReader,
        joined: JoinedTables,
        digested: ColumnCodec,
        asked: _ColumnAskedRows,
        *,
        is_left: bool,
    ) -> None:
        super().__init__(name, output)
        self._asked = asked
        self._is_left = is_left
        self._reader = reader
        self._joined = joined
        self._digested = digested

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """Updates for the table of results; answers out of date are dropped and counted."""
        frame, rows = self._reader.read(inputs[0], ctx)
        counts, nothing = self._asked.take(frame, rows, self._digested, ctx, is_left=self._is_left)
        if not counts.all():
            ctx.metrics.add(DROPPED_RECORDS, self.name, int((~counts).sum()))
            frame, rows, nothing = frame.filter(counts), rows.filter(counts), nothing.filter(counts)
        right = frame.select(
            *(pl.col(RIGHT + name).alias(name) for name in self._joined.right.names), pl.col(GONE).alias(NULL)
        )
        joined, done = self._joined.join(frame, rows, right, ctx, ~nothing)
        kept = frame.select(carried(frame))
        return (kept if done is None else kept.filter(done)).with_columns(joined.get_columns())


def foreign_key_resolve_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs one for the left table, and a joiner whose results have a schema."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, ForeignKeyResolve)
    table = ctx.tables.get(operator.table)
    if table is None or not isinstance(edge.value, AnswerSchema):
        return None
    assert edge.value.right is not None
    digested = _digesting(operator.serdes.value.columns, table.value)
    if digested is None or dict(edge.key.fields) != dict(table.key.fields):
        return None
    joiner = TableJoiner(operator.joiner, "outer", operator.schema)
    joined = JoinedTables.compile(node.name, joiner, table, EdgeSchema(edge.key, edge.value.right))
    reader = table_reader(node.name, node.parents[0], operator.table, ctx)
    asked = _ColumnAskedRows.of(operator.asked_rows, ctx)
    if joined is None or reader is None or asked is None:
        return None
    output = EdgeSchema(edge.key, joined.schema)
    return ForeignKeyResolveColumns(node.name, output, reader, joined, digested, asked, is_left=operator.left)
