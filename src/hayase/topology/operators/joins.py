"""Joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from hayase.core.join_windows import JoinWindows
from hayase.serde.protocol import Schema
from hayase.topology.operators.base import Fields, Operator
from hayase.topology.operators.functions import KeyValueMapper, ValueJoiner
from hayase.topology.operators.tables import InternalSerdes

JoinKind = Literal["inner", "left", "outer"]
"""Which records or rows must be there: both, the left one, one of the two."""

JoinSide = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class TableJoiner:
    """How two rows of one key become one: `(key, left, right)` or expressions; a null result is no row.

    Inner: both rows must be there; left: the left one; outer: one of the two. The function sees null for the other.
    """

    function: ValueJoiner | pl.Expr | Fields
    kind: JoinKind
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class TableJoin(Operator):
    """One side of a join of two tables: an update is joined with the row of the other `table` under its key.

    The result has the larger of the two timestamps. `old_values`: a node downstream wants the old result.
    """

    table: str
    joiner: TableJoiner
    is_left: bool
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableJoinMerge(Operator):
    """The table of what both sides of a join send; `left` and `right` are the tables joined.

    With a store the old value, where it is wanted, is the stored one.
    """

    left: str
    right: str
    joiner: TableJoiner
    store: str | None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class ForeignKeySubscribe(Operator):
    """Left side of a foreign-key join: each row asks for the right row that `extractor(key, value)` names (KIP-213).

    `left`: a row without a right row, or without a foreign key, has a result, too. An inner join counts rows
    without a foreign key as dropped. `serdes` are of foreign keys and of left values, whose digest travels along.
    `asked_rows`: the store of what was asked last for each key.
    """

    extractor: KeyValueMapper | pl.Expr
    left: bool
    serdes: InternalSerdes
    asked_rows: str


@dataclass(frozen=True, slots=True)
class ForeignKeyReceive(Operator):
    """Right side: keep the subscriptions, by foreign and primary key, in a store."""

    store: str


@dataclass(frozen=True, slots=True)
class ForeignKeyLookUp(Operator):
    """Right side: answer a subscription with the row of the right `table`; at the larger of the two timestamps."""

    table: str


@dataclass(frozen=True, slots=True)
class ForeignKeyFanOut(Operator):
    """Right side: answer every subscription in `store` for the row that changed; at that row's timestamp."""

    store: str


@dataclass(frozen=True, slots=True)
class ForeignKeyResolve(Operator):
    """Left side: join the row of the left `table` with an answer, if the row is still the one that asked.

    Others are dropped and counted. `serdes` are of primary keys and left values; `asked_rows` is the store of
    ForeignKeySubscribe.
    """

    table: str
    left: bool
    joiner: ValueJoiner | pl.Expr | Fields
    serdes: InternalSerdes
    schema: Schema | None
    asked_rows: str


@dataclass(frozen=True, slots=True)
class StreamTableJoin(Operator):
    """Look up the table as it is when the stream record is processed. Joiner: `(key, left, right)` or expressions.

    Inner: no result without a row; null keys and values of the stream are dropped and counted. Left: `right` is null
    without a row, null keys are kept, null values are dropped and counted. The result has the stream record's
    timestamp.

    Attributes:
        as_of: the table is versioned: look up the row that is valid at the record's timestamp.
        buffer: a store in which records wait until stream time is at least `grace_ms` beyond them; `None`: they do not
            wait.
        serdes: of keys and values in it.
        grace_ms: see `buffer`.
    """

    table: str
    left: bool
    joiner: ValueJoiner | pl.Expr | Fields
    schema: Schema | None = None
    as_of: bool = False
    buffer: str | None = None
    serdes: InternalSerdes | None = None
    grace_ms: int = 0


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoin(Operator):
    """Look up a global table's store under a key made of the stream record: `key_mapper(key, value)` or an expression.

    Null rules as in StreamTableJoin, for the mapped key. No co-partitioning needed.
    """

    store: str
    left: bool
    key_mapper: KeyValueMapper | pl.Expr
    joiner: ValueJoiner | pl.Expr | Fields
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class StreamJoinWindow(Operator):
    """Pass on each record of one side of a stream-stream join, then keep it, if it has a key and a value."""

    store: str


@dataclass(frozen=True, slots=True)
class StreamStreamJoin(Operator):
    """Join each record of one side with those that the other side's window store holds. Joiner as in StreamTableJoin.

    Results have the larger of the two timestamps. Null values are dropped and counted; so are null keys, unless this
    side is `outer`: then the record comes out alone at once.

    Attributes:
        side: the one whose records arrive here.
        windows: as the left side sees them.
        outer: a record of this side that found no match until its window and grace are over comes out alone.
        window: the node that keeps this side.
        other_window: the node that keeps the other side.
        store: the window store of this side.
        other_store: the window store of the other side.
        unmatched: the store of records that have found no match yet, of both sides; `None` in an inner join.
        clock: the stream time of both sides together.
    """

    side: JoinSide
    windows: JoinWindows
    outer: bool
    window: str
    other_window: str
    store: str
    other_store: str
    unmatched: str | None
    clock: str
    joiner: ValueJoiner | pl.Expr | Fields
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class StreamSelfJoin(Operator):
    """Both sides of an inner join of a stream with itself, of which one window store keeps the records (KIP-862).

    A record is joined as the left side with those before it, then as the right side with these and itself. Null keys
    and null values are dropped and counted.

    Attributes:
        windows: as the left side sees them.
        window: the node that keeps the records.
        store: where.
    """

    windows: JoinWindows
    window: str
    store: str
    joiner: ValueJoiner | pl.Expr | Fields
    schema: Schema | None = None
