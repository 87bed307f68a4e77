"""Aggregates, and the operators that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import polars as pl

from hayase.core.windows import SessionWindows, SlidingWindows, Windows
from hayase.topology.operators.base import Operator
from hayase.topology.operators.functions import Aggregator, Initializer, Merger, Reducer

AggregateFunction = Literal[
    "count", "sum", "min", "max", "avg", "earliest", "latest", "collect_list", "collect_set", "loop"
]


class AggregateLoop(Protocol):
    """An aggregate of Python functions, which both forms call for one input after the other.

    A state is any value, but never null. In columns states are packed: bytes that only these functions look into.

    Attributes:
        inputs: names of the fields of the value that it takes.
        invertible: there is an `undo`.
        text: what it is, for those who ask how a topology is run.
    """

    inputs: tuple[str, ...]
    invertible: bool
    text: str

    def initial(self) -> Any:
        """The state before the first input."""
        ...

    def add(self, state: Any, values: Sequence[Any]) -> Any:
        """The state with one more input."""
        ...

    def undo(self, state: Any, values: Sequence[Any]) -> Any:
        """The state without an input that was added before."""
        ...

    def merge(self, left: Any, right: Any) -> Any:
        """The state of the inputs of two."""
        ...

    def pack(self, state: Any) -> bytes:
        """A state as bytes."""
        ...

    def unpack(self, data: bytes | None) -> Any:
        """The state of such bytes; of none the initial one."""
        ...

    def values_of(self, columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """The values of the inputs' columns."""
        ...


@dataclass(frozen=True, slots=True)
class FieldAggregate:
    """One field of a built-in aggregate.

    count: number of records (`input` is `None`), or of non-null inputs. sum: of non-null inputs, 0 if there are none;
    whole numbers are 64-bit and overflowing is a processing error. min, max, avg: of non-null inputs, null if there are
    none. earliest, latest: the first or last input in the order of processing, or with a `size` the list of the first
    or last so many. collect_list, collect_set: all inputs, or the different ones, in that order, at most `size`; what
    comes after is skipped.

    Attributes:
        ignore_nulls: null inputs do not count; earliest, latest, collect_list and collect_set only.
        size: see above; `None`: one value, not a list, or no limit.
        wraps: sums of whole numbers that leave 64 bits go on at the other end, as in Java and ksqlDB.
        loop: what computes the function `loop`; the field is its state. `input` are its inputs: the field, or a struct.
    """

    name: str
    function: AggregateFunction
    input: pl.Expr | None = None
    ignore_nulls: bool = True
    size: int | None = None
    wraps: bool = False
    loop: AggregateLoop | None = None


@dataclass(frozen=True, slots=True)
class BuiltInAggregate:
    """Aggregates that both forms know. `bare`: the one field is the value itself (`count()`)."""

    fields: tuple[FieldAggregate, ...]
    bare: bool = False


@dataclass(frozen=True, slots=True)
class CallableAggregate:
    """`initializer() -> aggregate`, `aggregator(key, value, aggregate) -> aggregate`; a null result removes the row.

    `merger(key, left, right) -> aggregate`, of session windows only, makes one aggregate of those of two sessions.
    """

    initializer: Initializer
    aggregator: Aggregator
    merger: Merger | None = None


@dataclass(frozen=True, slots=True)
class CallableReduce:
    """`reducer(aggregate, value) -> aggregate`; the first value of a key is its aggregate."""

    reducer: Reducer


Aggregation = BuiltInAggregate | CallableAggregate | CallableReduce


@dataclass(frozen=True, slots=True)
class StreamAggregate(Operator):
    """Aggregate a grouped stream into a table. Null keys and null values are dropped and counted.

    The timestamp of a row is the largest that went into it.
    `old_values`: a node downstream wants the old value; before a row's first update there is none.
    `cogrouped`: one of several that keep their rows in one store; a CogroupMerge sends the updates of all.
    """

    aggregation: Aggregation
    store: str
    old_values: bool = False
    cogrouped: bool = False


@dataclass(frozen=True, slots=True)
class WindowedOperator(Operator):
    """Base of the aggregates per key and window.

    Each has a stream time of its own: the largest timestamp it has seen, of records that it does not refuse for a null
    key or value. A record is late for a window that is closed by that time, or that the store has expired (which in a
    cogroup the other members' records may do); it is then refused for that window, and counted once per window.
    `old_values`, `cogrouped` as in StreamAggregate. `on_close`: a result is sent once, when the window closes.
    """

    aggregation: Aggregation
    store: str
    old_values: bool = False
    cogrouped: bool = False
    on_close: bool = False


@dataclass(frozen=True, slots=True)
class StreamWindowedAggregate(WindowedOperator):
    """Aggregate a grouped stream per key and time window, which is closed once stream time is at least its end + grace.

    Null keys are dropped and counted, null values are taken in.
    """

    windows: Windows = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class StreamSlidingAggregate(WindowedOperator):
    """Aggregate a grouped stream per key and sliding window.

    A window is closed once stream time is more than its end + grace. Null keys and null values are dropped and counted.
    """

    windows: SlidingWindows = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class StreamSessionAggregate(WindowedOperator):
    """Aggregate a grouped stream per key and session.

    Late is a record whose session ended before stream time - gap - grace.

    Null keys are dropped and counted, null values are taken in. Sessions that a record merges are deleted, then the
    merged one is sent, under the time of its end.
    """

    windows: SessionWindows = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class CogroupMerge(Operator):
    """Sends on the updates of the aggregates of a cogroup, which keep their rows in one store.

    The table of that store.
    """

    store: str
    old_values: bool = False


@dataclass(frozen=True, slots=True)
class LateRecords(Operator):
    """The late records of its parent, a windowed aggregate, as they came, under key and window that refused them."""


@dataclass(frozen=True, slots=True)
class CallableTableAggregate:
    """`initializer() -> aggregate`; adder and subtractor are `(key, value, aggregate) -> aggregate`.

    A null result removes the row.
    """

    initializer: Initializer
    adder: Aggregator
    subtractor: Aggregator


@dataclass(frozen=True, slots=True)
class CallableTableReduce:
    """Adder and subtractor are `(aggregate, value) -> aggregate`; the first value of a group is its aggregate."""

    adder: Reducer
    subtractor: Reducer


TableAggregation = BuiltInAggregate | CallableTableAggregate | CallableTableReduce


@dataclass(frozen=True, slots=True)
class TableAggregate(Operator):
    """Aggregate what TableGroupBy sends: of each update the old value is subtracted first, then the new one added.

    Nothing is subtracted where there is no row. Of a BuiltInAggregate every field can be undone (`BuiltIn.invertible`).
    The timestamp of a row is the largest that went into it since it is there. `old_values`: a node downstream wants
    the old value.
    """

    aggregation: TableAggregation
    store: str
    old_values: bool = False
