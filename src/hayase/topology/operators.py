"""What a processor node does, as plain data. `hayase.kernel` holds the row and the column form of each.

A *function* is a Python callable or a Polars expression. Expressions see the value's fields by name (a bare value as
`value`), the key as `__key`, the timestamp as `__ts`; in a joiner the fields of the two sides as `__left.<field>` and
`__right.<field>`, the key as `__key`. `hayase.key()`, `hayase.timestamp()`, `hayase.left()`, `hayase.right()` make these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from hayase.core.windows import TimeWindows
from hayase.serde.protocol import Schema, Serde

Fields = tuple[tuple[str, pl.Expr], ...]
"""A value made of expressions: field names in order, each with its expression."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Base of all; a node's operator is one of the classes below."""


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """Keep records (of a stream) for which the predicate is true; a null result counts as false.

    A callable takes `(key, value)`.
    """

    predicate: Callable[[Any, Any], bool] | pl.Expr
    negate: bool = False


@dataclass(frozen=True, slots=True)
class MapValues(Operator):
    """New value from key and value. A callable takes `(key, value)`; an expression makes a bare value, `Fields` a record of fields.

    `schema` is that of a callable's results where it is known (given, or from the return annotation).
    """

    mapper: Callable[[Any, Any], Any] | pl.Expr | Fields
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Map(Operator):
    """New key and value: a callable `(key, value) -> (key, value)`, or an expression for the key and `value` as in MapValues."""

    mapper: Callable[[Any, Any], tuple[Any, Any]] | None = None
    key: pl.Expr | None = None
    value: pl.Expr | Fields | None = None
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SelectKey(Operator):
    """New key from `(key, value)`."""

    mapper: Callable[[Any, Any], Any] | pl.Expr
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class FlatMapValues(Operator):
    """Zero or more values from `(key, value)`, in order; an expression must give a list. Timestamp and headers are kept."""

    mapper: Callable[[Any, Any], Any] | pl.Expr
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Zero or more records from `(key, value)`, in order: pairs of key and value. Timestamp and headers are kept.

    An expression must give a list of structs with the fields `key` and `value`.
    """

    mapper: Callable[[Any, Any], Any] | pl.Expr
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class Peek(Operator):
    """Call `(key, value)` for its side effect and pass the record on."""

    action: Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class Foreach(Operator):
    """Call `(key, value)` for its side effect; nothing is passed on."""

    action: Callable[[Any, Any], None]


@dataclass(frozen=True, slots=True)
class Merge(Operator):
    """Pass on what comes from any parent."""


@dataclass(frozen=True, slots=True)
class Split(Operator):
    """Send each record to the child `Branch` of the first predicate that holds, else to the default branch, else nowhere.

    Predicates as in Filter. `default` says whether there is a default branch; its index is `len(predicates)`.
    """

    predicates: tuple[Callable[[Any, Any], bool] | pl.Expr, ...]
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
class Process(Operator):
    """A processor of the user's, made anew for each task and epoch. `fixed_key`: it is a FixedKeyProcessor."""

    supplier: Callable[[], Any]
    fixed_key: bool = False


@dataclass(frozen=True, slots=True)
class TableSource(Operator):
    """Turns a stream of upserts (null value: delete) into a table; `store` is `None` if nobody needs the rows.

    Null keys are dropped and counted. `old_values`: somebody downstream wants the old value.
    """

    store: str | None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableFilter(Operator):
    """A table's rows for which the predicate holds; the others become deletes. `(key, value)`; never called with a null value.

    `old_values`: the parent's old values are known (Kafka Streams' rule, applied by the DSL), so a delete of what is not there is left out.
    """

    predicate: Callable[[Any, Any], bool] | pl.Expr
    negate: bool
    parent: str
    store: str | None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableMapValues(Operator):
    """A table's rows with new values; deletes stay deletes, a null result is one. Never called with a null value.

    `old_values`: somebody downstream wants the old value, and it is known.
    """

    mapper: Callable[[Any, Any], Any] | pl.Expr | Fields
    parent: str
    store: str | None
    schema: Schema | None = None
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableToStream(Operator):
    """A table's updates as a stream: new values, null for a delete."""


AggregateFunction = Literal["count", "sum", "min", "max", "avg", "earliest", "latest", "collect_list", "collect_set"]


@dataclass(frozen=True, slots=True)
class FieldAggregate:
    """One field of a built-in aggregate.

    count: number of records (`input` is `None`), or of non-null inputs. sum: of non-null inputs, 0 if there are none; whole
    numbers are 64-bit and overflowing is a processing error. min, max, avg: of non-null inputs, null if there are none.
    earliest, latest: the first or last input in the order of processing, or with a `size` the list of the first or last
    so many. collect_list, collect_set: all inputs, or the different ones, in that order, at most `size`; what comes
    after is passed over.

    Attributes:
        ignore_nulls: null inputs do not count; earliest, latest, collect_list and collect_set only.
        size: see above; `None`: one value, not a list, or no limit.
    """

    name: str
    function: AggregateFunction
    input: pl.Expr | None = None
    ignore_nulls: bool = True
    size: int | None = None


@dataclass(frozen=True, slots=True)
class BuiltInAggregate:
    """Aggregates that both forms know. `bare`: the one field is the value itself (`count()`)."""

    fields: tuple[FieldAggregate, ...]
    bare: bool = False


@dataclass(frozen=True, slots=True)
class CallableAggregate:
    """`initializer() -> aggregate`, `aggregator(key, value, aggregate) -> aggregate`; a null result removes the row."""

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class CallableReduce:
    """`reducer(aggregate, value) -> aggregate`; the first value of a key is its aggregate."""

    reducer: Callable[[Any, Any], Any]


Aggregation = BuiltInAggregate | CallableAggregate | CallableReduce


@dataclass(frozen=True, slots=True)
class StreamAggregate(Operator):
    """Aggregate a grouped stream into a table. Null keys and null values are dropped and counted.

    The timestamp of a row is the largest that went into it.
    `old_values`: somebody downstream wants the old value; before a row's first update there is none.
    """

    aggregation: Aggregation
    store: str
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class StreamWindowedAggregate(Operator):
    """Aggregate a grouped stream per key and time window.

    Null keys are dropped and counted, null values are taken in. A record is refused for a window, and counted once
    per window, when the operator's stream time (largest timestamp it has seen, this record's included) is at least
    window end + grace. `old_values` as in StreamAggregate.
    """

    aggregation: Aggregation
    windows: TimeWindows
    store: str
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class TableGroupBy(Operator):
    """Each update of a table under new keys, on its way to where these are aggregated.

    The mapper makes of a row a pair of new key and new value; the row counts as none if either is null. Old and new
    row under one new key travel as one update, otherwise the old one goes first (KIP-904).

    A callable takes `(key, value)`; or `key` is an expression and `value` as in MapValues, `None` for the row's value.
    """

    mapper: Callable[[Any, Any], tuple[Any, Any]] | None = None
    key: pl.Expr | None = None
    value: pl.Expr | Fields | None = None


@dataclass(frozen=True, slots=True)
class CallableTableAggregate:
    """`initializer() -> aggregate`; adder and subtractor are `(key, value, aggregate) -> aggregate`.

    A null result removes the row.
    """

    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class CallableTableReduce:
    """Adder and subtractor are `(aggregate, value) -> aggregate`; the first value of a group is its aggregate."""

    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]


TableAggregation = BuiltInAggregate | CallableTableAggregate | CallableTableReduce


@dataclass(frozen=True, slots=True)
class TableAggregate(Operator):
    """Aggregate what TableGroupBy sends: of each update the old value is subtracted first, then the new one added.

    Nothing is subtracted where there is no row. Of a BuiltInAggregate every field can be undone (`BuiltIn.invertible`).
    The timestamp of a row is the largest that went into it since it is there. `old_values`: somebody downstream wants
    the old value.
    """

    aggregation: TableAggregation
    store: str
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class InternalSerdes:
    """Serdes of keys and values that an operator itself needs; `topic` names what they are for, as a topic would be."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]


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
        old_values: somebody downstream wants the old value: the one that was sent last.
    """

    store: str
    serdes: InternalSerdes
    wait_ms: int
    until_window_closes: bool
    max_records: int | None
    max_bytes: int | None
    when_full: Literal["emit", "shutdown"]
    old_values: bool = False


JoinKind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True)
class TableJoiner:
    """How two rows of one key become one: `(key, left, right)` or expressions; a null result is no row.

    Inner: both rows must be there; left: the left one; outer: one of the two. The function sees null for the other.
    """

    function: Callable[[Any, Any, Any], Any] | pl.Expr | Fields
    kind: JoinKind
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class TableJoin(Operator):
    """One side of a join of two tables: an update is joined with the row of the other `table` under its key.

    The result has the larger of the two timestamps. `old_values`: somebody downstream wants the old result.
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
    """

    extractor: Callable[[Any, Any], Any] | pl.Expr
    left: bool
    serdes: InternalSerdes


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

    Others are dropped and counted. `serdes` are of primary keys and left values.
    """

    table: str
    left: bool
    joiner: Callable[[Any, Any, Any], Any] | pl.Expr | Fields
    serdes: InternalSerdes


@dataclass(frozen=True, slots=True)
class StreamTableJoin(Operator):
    """Look up the table as it is when the stream record is processed. Joiner: `(key, left, right)` or expressions.

    Inner: no result without a row; null keys and values of the stream are dropped and counted. Left: `right` is null
    without a row, null keys are kept, null values are dropped and counted. The result has the stream record's timestamp.
    """

    table: str
    left: bool
    joiner: Callable[[Any, Any, Any], Any] | pl.Expr | Fields
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoin(Operator):
    """Look up a global table's store under a key made of the stream record: `key_mapper(key, value)` or an expression.

    Null rules as in StreamTableJoin, for the mapped key. No co-partitioning needed.
    """

    store: str
    left: bool
    key_mapper: Callable[[Any, Any], Any] | pl.Expr
    joiner: Callable[[Any, Any, Any], Any] | pl.Expr | Fields
    schema: Schema | None = None
