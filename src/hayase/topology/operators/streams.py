"""Operators over streams."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hayase.serde.protocol import Schema
from hayase.topology.operators.base import Fields, Operator, UserCode
from hayase.topology.operators.functions import ForeachAction, KeyValueMapper, PairMapper, Predicate, Supplier


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """Keep records (of a stream) for which the predicate is true; a null result counts as false.

    A callable takes `(key, value)`.
    """

    predicate: Predicate
    negate: bool = False


@dataclass(frozen=True, slots=True)
class MapValues(Operator):
    """New value from key and value.

    A callable takes `(key, value)`; an expression makes a bare value, `Fields` a record of fields.

    `schema` is that of a callable's results where it is known (given, or from the return annotation).
    """

    mapper: KeyValueMapper | pl.Expr | Fields
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Map(Operator):
    """New key and value.

    A callable `(key, value) -> (key, value)`, or an expression for the key and `value` as in MapValues.
    """

    mapper: PairMapper | None = None
    key: pl.Expr | None = None
    value: pl.Expr | Fields | None = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SelectKey(Operator):
    """New key from `(key, value)`."""

    mapper: KeyValueMapper | pl.Expr
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SetTimestamp(Operator):
    """New timestamp from `(key, value)`, in milliseconds; where it is null the record is dropped and counted."""

    mapper: KeyValueMapper


@dataclass(frozen=True, slots=True)
class FlatMapValues(Operator):
    """Zero or more values from `(key, value)`, in order; an expression must give a list.

    Timestamp and headers are kept.
    """

    mapper: KeyValueMapper | pl.Expr
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Zero or more records from `(key, value)`, in order: pairs of key and value. Timestamp and headers are kept.

    An expression must give a list of structs with the fields `key` and `value`.
    """

    mapper: KeyValueMapper | pl.Expr
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Peek(Operator):
    """Call `(key, value)` for its side effect and pass the record on."""

    action: ForeachAction


@dataclass(frozen=True, slots=True)
class Foreach(Operator):
    """Call `(key, value)` for its side effect; nothing is passed on."""

    action: ForeachAction


@dataclass(frozen=True, slots=True)
class Merge(Operator):
    """Pass on what comes from any parent."""


@dataclass(frozen=True, slots=True)
class Split(Operator):
    """Send each record to the child `Branch` of the first predicate that holds, else to the default branch, if any.

    Predicates as in Filter. `default` says whether there is a default branch; its index is `len(predicates)`.
    """

    predicates: tuple[Predicate, ...]
    default: bool


@dataclass(frozen=True, slots=True)
class Branch(Operator):
    """One exit of a Split; passes on what the Split sends to its index."""

    index: int


@dataclass(frozen=True, slots=True)
class RepartitionFilter(Operator):
    """Drops records with a null key before a repartition, uncounted, as Kafka Streams does.

    `keep_null_keys`: a left join is somewhere downstream and wants them, so nothing is dropped.
    """

    keep_null_keys: bool = False


@dataclass(frozen=True, slots=True)
class Process(UserCode):
    """A processor of the user, recreated for each task and epoch. `fixed_key`: it is a FixedKeyProcessor."""

    supplier: Supplier
    fixed_key: bool = False
