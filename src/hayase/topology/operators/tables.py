"""Operators over tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from hayase.serde.protocol import Schema, Serde
from hayase.topology.operators.base import Fields, Operator, UserCode
from hayase.topology.operators.functions import KeyValueMapper, PairMapper, Predicate, Supplier


@dataclass(frozen=True, slots=True)
class TableSource(Operator):
    """Turns a stream of upserts (null value: delete) into a table; `store` is `None` if the rows are not needed.

    Null keys are dropped and counted. `old_values`: a node downstream wants the old value.
    `completes`: updates may lack large values (`UNAVAILABLE`), which are those of the row before.
    """

    store: str | None
    old_values: bool = False
    completes: bool = False


@dataclass(frozen=True, slots=True)
class TableFilter(Operator):
    """A table's rows for which the predicate holds; the others become deletes.

    `(key, value)`; never called with a null value.

    `old_values`: the parent's old values are known (Kafka Streams' rule, applied by the DSL), so a delete of what is
    not there is left out. `versioned`: the parent is; then it is not left out.
    """

    predicate: Predicate
    negate: bool
    parent: str
    store: str | None
    old_values: bool = False
    versioned: bool = False


@dataclass(frozen=True, slots=True)
class TableMapValues(Operator):
    """A table's rows with new values; deletes stay deletes, a null result is one. Never called with a null value.

    `old_values`: a node downstream wants the old value, and it is known.
    """

    mapper: KeyValueMapper | pl.Expr | Fields
    parent: str
    store: str | None
    schema: Schema | None = None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableTransformValues(UserCode):
    """A table's rows with the values that an object of the user makes; it is shown deletes too.

    A null result is no row.

    `old_values`: a node downstream wants the old value, and it is known.
    """

    supplier: Supplier
    parent: str
    store: str | None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableToStream(Operator):
    """A table's updates as a stream: new values, null for a delete."""


@dataclass(frozen=True, slots=True)
class TableGroupBy(Operator):
    """Each update of a table under new keys, on its way to where these are aggregated.

    The mapper makes of a row a pair of new key and new value; the row counts as none if either is null. Old and new
    row under one new key travel as one update, otherwise the old one goes first (KIP-904).

    A callable takes `(key, value)`; or `key` is an expression and `value` as in MapValues, `None` for the row's value.
    """

    mapper: PairMapper | None = None
    key: pl.Expr | None = None
    value: pl.Expr | Fields | None = None


@dataclass(frozen=True, slots=True)
class InternalSerdes:
    """Serdes of keys and values that an operator itself needs; `topic` names what they are for, as a topic would be."""

    topic: str
    key: Serde
    value: Serde


@dataclass(frozen=True, slots=True)
class TableSuppress(Operator):
    """Hold updates of a table back until a row's time is reached, then send the last one.

    Attributes:
        store: the buffer.
        serdes: of keys and values in it.
        wait_ms: after a row's time: of a window its end, else the timestamp of the first update held back.
        until_window_closes: keys are windowed; deletes are not sent.
        max_records, max_bytes: of the buffer, `None`: no limit.
        when_full: whether the oldest rows are sent early then, or the application stops.
        old_values: a node downstream wants the old value: the one that was sent last.
    """

    store: str
    serdes: InternalSerdes
    wait_ms: int
    until_window_closes: bool
    max_records: int | None
    max_bytes: int | None
    when_full: Literal["emit", "shutdown"]
    old_values: bool = False
