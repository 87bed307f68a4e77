"""The right side of a foreign-key join in column form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from hayase.core.metrics import DROPPED_RECORDS
from hayase.kernel.foreign_key.right_rows import REMEMBERED
from hayase.kernel.frame.expressions import carried, schema_of_type
from hayase.kernel.frame.key_columns import key_bytes
from hayase.kernel.frame.order import LookupOrder, RecordOrder
from hayase.kernel.join.lookup_columns import comparable_orders
from hayase.kernel.join.table_reader_columns import TableReader, table_reader
from hayase.kernel.node.column_node import (
    KEY,
    NULL,
    ORDER,
    TS,
    ColumnContext,
    ColumnNode,
    CompileContext,
    TableColumns,
    order_columns,
)
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.table.view_columns import IndirectTable
from hayase.serde.protocol import ColumnCodec, Schema
from hayase.serde.subscription_columns import (
    DIGEST,
    GONE,
    INSTRUCTION,
    PARTITION,
    PRIMARY_KEY,
    RIGHT,
    SubscriptionCodec,
    answer_schema,
)
from hayase.serde.subscriptions import CombinedKeySerde, Instruction, prefix_of
from hayase.state.stores.key_value import behind_prefix
from hayase.state.stores.protocol import ByteStore
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import ForeignKeyFanOut, ForeignKeyLookUp, ForeignKeyReceive

_PREFIX = "__prefix"


@dataclass(frozen=True, slots=True)
class PairCodec:
    """Column forms of a store of subscriptions."""

    foreign: ColumnCodec
    value: SubscriptionCodec

    @classmethod
    def of(cls, store: str, ctx: CompileContext) -> PairCodec | None:
        """Those of a store; `None` if a serde has none."""
        spec = ctx.stores[store]
        assert isinstance(spec.key_serde, CombinedKeySerde)
        foreign, value = spec.key_serde.foreign.columns, spec.value_serde.columns
        return None if foreign is None or not isinstance(value, SubscriptionCodec) else cls(foreign, value)

    def prefixes(self, keys: pl.Series) -> list[bytes]:
        """What the bytes of all pairs with such foreign keys begin with."""
        return list(map(prefix_of, key_bytes(keys, self.foreign)))


@dataclass
class Subscriptions(IndirectTable):
    """What a ForeignKeyReceive is about to write, until the node that answers changes of right rows has read the store.

    Attributes:
        frame: order columns and `__prefix` of each, in order.
        keys: where each is stored.
        values: what is stored there, `None`: it is forgotten.
    """

    store: ByteStore
    frame: pl.DataFrame
    keys: list[bytes]
    values: list[bytes | None]
    written: bool = field(default=False)

    def write(self) -> None:
        """Write them, once."""
        if not self.written:
            self.store.put_many(self.keys, self.values)
            self.written = True


class ForeignKeyReceiveColumns(ColumnNode):
    """ForeignKeyReceive in column form.

    Args:
        answers_later: a ForeignKeyFanOut reads the store after this node, as it was before each of its updates, and
            then writes what this node wants written.
    """

    def __init__(self, name: str, edge: EdgeSchema, store: str, codec: PairCodec, *, answers_later: bool) -> None:
        super().__init__(name, edge)
        self._store = store
        self._codec = codec
        self._answers_later = answers_later
        self._table: Subscriptions | None = None

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The subscriptions; those without a foreign key are only there to be answered."""
        frame = inputs[0]
        refused = frame[KEY].is_null() & (frame[INSTRUCTION] != int(Instruction.ANSWER_ALWAYS))
        if refused.any():
            ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
            frame = frame.filter(~refused)
        asked = frame.filter(frame[KEY].is_not_null())
        prefixes = self._codec.prefixes(asked[KEY])
        primary = self._codec.value.key_bytes(asked[PRIMARY_KEY])
        kept = asked.with_columns(pl.lit(int(Instruction.ANSWER_ALWAYS), pl.Int8).alias(INSTRUCTION))
        values = self._codec.value.encoded(kept, primary)
        times = asked[TS].to_numpy().astype(">i8").tobytes()
        remembered = asked[INSTRUCTION].is_in([int(instruction) for instruction in REMEMBERED]).to_list()
        self._table = Subscriptions(
            ctx.byte_store(self._store),
            asked.select(order_columns(asked)).with_columns(pl.Series(_PREFIX, prefixes, pl.Binary)),
            [prefix + (key or b"") for prefix, key in zip(prefixes, primary, strict=True)],
            [
                times[8 * at : 8 * at + 8] + value if wanted and value is not None else None
                for at, (value, wanted) in enumerate(zip(values, remembered, strict=True))
            ],
        )
        if not self._answers_later:
            self._table.write()
        return frame

    def table_columns(self) -> TableColumns | None:
        """What is about to be written."""
        return self._table


def foreign_key_receive_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs one of the serdes."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, ForeignKeyReceive)
    codec = PairCodec.of(operator.store, ctx)
    if codec is None or edge.value != codec.value.schema:
        return None
    later = any(isinstance(other.operator, ForeignKeyFanOut) and operator.store in other.stores for other in ctx.nodes)
    return ForeignKeyReceiveColumns(node.name, edge, operator.store, codec, answers_later=later)


def _primary_schema(value: Schema) -> Schema:
    return schema_of_type(dict(value.fields)[PRIMARY_KEY])


class ForeignKeyLookUpColumns(ColumnNode):
    """ForeignKeyLookUp in column form.

    Args:
        reader: reads the right table.
        names: the fields of right values.
    """

    def __init__(self, name: str, output: EdgeSchema, reader: TableReader, names: Sequence[str]) -> None:
        super().__init__(name, output)
        self._reader = reader
        self._names = names

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The answers to those subscriptions that want one."""
        frame = inputs[0].filter(pl.col(INSTRUCTION) != int(Instruction.UNSUBSCRIBE))
        frame, rows = self._reader.read(frame, ctx)
        silent = rows[NULL] & (frame[INSTRUCTION] == int(Instruction.ANSWER_IF_THERE))
        if silent.any():
            frame, rows = frame.filter(~silent), rows.filter(~silent)
        gone = rows[NULL] | (frame[INSTRUCTION] == int(Instruction.UNSUBSCRIBE_AND_ANSWER))
        right = rows.select(pl.when(~gone).then(pl.col(name)).alias(RIGHT + name) for name in self._names)
        return frame.select(carried(frame, key=False)).with_columns(
            pl.max_horizontal(frame[TS], rows[TS]).alias(TS),
            frame[PRIMARY_KEY].alias(KEY),
            frame[DIGEST],
            frame[PARTITION],
            gone.alias(GONE),
            *right.get_columns(),
            pl.lit(value=False).alias(NULL),
        )


def foreign_key_look_up_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs one for the right table, and a topology whose order columns tell what is seen."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, ForeignKeyLookUp)
    table = ctx.tables.get(operator.table)
    if table is None:
        return None
    reader = table_reader(node.name, node.parents[0], operator.table, ctx)
    if reader is None or dict(edge.key.fields) != dict(table.key.fields):
        return None
    output = EdgeSchema(_primary_schema(edge.value), answer_schema(table.value))
    return ForeignKeyLookUpColumns(node.name, output, reader, table.value.names)


class ForeignKeyFanOutColumns(ColumnNode):
    """ForeignKeyFanOut in column form.

    Args:
        receiver: the node that receives the subscriptions.
        order: which of its changes an update sees.
        names: fields of right values.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        receiver: str,
        order: LookupOrder,
        codec: PairCodec,
        names: Sequence[str],
    ) -> None:
        super().__init__(name, output)
        self._receiver = receiver
        self._order = order
        self._codec = codec
        self._names = names

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """Answers to every subscription for the row's key, in the order of the primary keys' bytes."""
        frame, subscriptions = inputs[0], ctx.table(self._receiver)
        assert isinstance(subscriptions, Subscriptions)
        if frame[KEY].null_count():
            ctx.metrics.add(DROPPED_RECORDS, self.name, frame[KEY].null_count())
            frame = frame.filter(frame[KEY].is_not_null())
        asked: list[bytes] = []
        counts = np.zeros(frame.height, np.int64)
        positions: list[np.ndarray] = [np.empty(0, np.int64)]
        seen: dict[bytes, np.ndarray] = {}
        for row, (prefix, visible) in enumerate(self._visible(frame, subscriptions)):
            known_positions = seen.get(prefix) if visible is None else None
            if known_positions is None:
                data = list(visible.values() if visible is not None else _stored(subscriptions.store, prefix).values())
                known_positions = np.arange(len(asked), len(asked) + len(data))
                asked += data
                if visible is None:
                    seen[prefix] = known_positions
            counts[row] = len(known_positions)
            positions.append(known_positions)
        subscriptions.write()
        return self._answers(frame, counts, np.concatenate(positions), asked)

    def _visible(
        self, frame: pl.DataFrame, subscriptions: Subscriptions
    ) -> Iterator[tuple[bytes, dict[bytes, bytes] | None]]:
        """For each update the prefix of its subscriptions, and these by key, in order; `None`: as they are stored."""
        prefixes = self._codec.prefixes(frame[KEY])
        changes = self._changes(frame, subscriptions, set(prefixes))
        if not changes:
            yield from ((prefix, None) for prefix in prefixes)
            return
        updates, _ = comparable_orders(frame, subscriptions.frame, self._order.shared)
        stored: dict[bytes, dict[bytes, bytes]] = {}
        for prefix, when in zip(prefixes, updates.to_list(), strict=True):
            own = changes.get(prefix)
            if own is None:
                yield prefix, None
                continue
            if prefix not in stored:
                stored[prefix] = _stored(subscriptions.store, prefix)
            now = stored[prefix]
            while own and (own[-1][0] < when or (own[-1][0] == when and self._order.table_first)):
                _, position = own.pop()
                value = subscriptions.values[position]
                if value is None:
                    now.pop(subscriptions.keys[position], None)
                else:
                    now[subscriptions.keys[position]] = value
            yield prefix, {key: now[key] for key in sorted(now)}

    def _changes(
        self, frame: pl.DataFrame, subscriptions: Subscriptions, wanted: set[bytes]
    ) -> dict[bytes, list[tuple[int, int]]]:
        """Of the prefixes that are asked for, when each change comes and its position: the last one first."""
        if not subscriptions.keys or not wanted:
            return {}
        own = subscriptions.frame[_PREFIX].is_in(pl.Series(list(wanted), dtype=pl.Binary).implode())
        if not own.any():
            return {}
        _, when = comparable_orders(frame, subscriptions.frame, self._order.shared)
        changes: dict[bytes, list[tuple[int, int]]] = {}
        at = np.flatnonzero(own.to_numpy())[::-1]
        rows = zip(
            subscriptions.frame[_PREFIX].gather(at).to_list(), when.gather(at).to_list(), at.tolist(), strict=True
        )
        for prefix, time, position in rows:
            changes.setdefault(prefix, []).append((time, position))
        return changes

    def _answers(
        self, frame: pl.DataFrame, counts: np.ndarray, positions: np.ndarray, asked: list[bytes]
    ) -> pl.DataFrame:
        decoded = self._codec.value.decode_list([data[8:] for data in asked]).checked()
        subscriptions = decoded.frame.select(PRIMARY_KEY, DIGEST, PARTITION)[positions]
        row = np.repeat(np.arange(frame.height), counts)
        number = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        updates = frame[row]
        return updates.select(carried(updates, key=False)).with_columns(
            pl.Series(f"{ORDER}{len(order_columns(frame))}", number, pl.Int64),
            subscriptions[PRIMARY_KEY].alias(KEY),
            subscriptions[DIGEST],
            subscriptions[PARTITION],
            updates[NULL].alias(GONE),
            *(updates[name].alias(RIGHT + name) for name in self._names),
            pl.lit(value=False).alias(NULL),
        )


def _stored(store: ByteStore, prefix: bytes) -> dict[bytes, bytes]:
    return dict(store.range(prefix, behind_prefix(prefix)))


def foreign_key_fan_out_columns(
    node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext
) -> ColumnNode | None:
    """The column form; it needs a topology whose order columns tell which subscriptions an update sees."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, ForeignKeyFanOut)
    codec = PairCodec.of(operator.store, ctx)
    receivers = [
        other.name
        for other in ctx.nodes
        if isinstance(other.operator, ForeignKeyReceive) and other.operator.store == operator.store
    ]
    if codec is None or edge.windowed or len(receivers) != 1:
        return None
    if dict(edge.key.fields) != dict(codec.foreign.schema.fields):
        return None
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).lookup(node.name, node.parents[0], receivers[0])
    if order is None:
        return None
    output = EdgeSchema(_primary_schema(codec.value.schema), answer_schema(edge.value))
    return ForeignKeyFanOutColumns(node.name, output, receivers[0], order, codec, edge.value.names)
