"""What an aggregation does with one record, in row form: callables, reducers, built-in aggregates behind one face."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.aggregate.built_in import built_ins, input_types
from hayase.kernel.aggregate.built_in_loop import Looped
from hayase.kernel.aggregate.built_in_serde import AggregateSerde, aggregate_serde, stored_field_names, visible
from hayase.kernel.frame.row_functions import OneRow, RecordFunction, field_of
from hayase.kernel.node.column_node import KEY, TS
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import Serde
from hayase.topology.operators import Aggregation, BuiltInAggregate, CallableAggregate, CallableReduce


class RowAggregator(ABC):
    """An aggregation in row form. A *state* is what is kept for a row; `None` is no row."""

    def inputs(self, record: Record) -> Any:
        """What `step` needs of the record; evaluated once, however many windows it falls into."""
        return record

    @abstractmethod
    def start(self) -> Any:
        """The state of a row that is not there yet; recreated for each."""

    @abstractmethod
    def step(self, state: Any, inputs: Any) -> Any:
        """The state with one more record; `None` removes the row. User code may change and return the one it got."""

    @abstractmethod
    def load(self, data: bytes) -> Any:
        """The state of stored bytes."""

    @abstractmethod
    def dump(self, state: Any) -> bytes | None:
        """The bytes to store; raises SerializationError."""

    def visible(self, state: Any) -> Any:
        """The row's value."""
        return state


class RowStreamAggregator(RowAggregator):
    """A RowAggregator whose states can be merged, which sessions do."""

    @abstractmethod
    def merge(self, key: object, left: object, right: object) -> Any:
        """The state of two sessions of a key together, of which `left` is the earlier, or the beginning."""


class CallableRows(RowStreamAggregator):
    """`aggregate(initializer, aggregator)`."""

    def __init__(self, aggregation: CallableAggregate, serde: Serde) -> None:
        self._serde = serde
        self._initializer, self._aggregator = aggregation.initializer, aggregation.aggregator
        self._merger = aggregation.merger

    def start(self) -> Any:
        """What the initializer gives."""
        return self._initializer()

    def step(self, state: Any, inputs: Any) -> Any:
        """What the aggregator gives."""
        return self._aggregator(inputs.key, inputs.value, state)

    def merge(self, key: object, left: object, right: object) -> Any:
        """What the merger gives."""
        assert self._merger is not None, "only sessions are merged, and they have a merger"
        return self._merger(key, left, right)

    def load(self, data: bytes) -> Any:
        """By the store's serde."""
        return self._serde.from_bytes(data)

    def dump(self, state: object) -> bytes | None:
        """By the store's serde."""
        return self._serde.serialize(state)


class ReduceRows(RowStreamAggregator):
    """`reduce(reducer)`."""

    def __init__(self, aggregation: CallableReduce, serde: Serde) -> None:
        self._serde = serde
        self._reducer = aggregation.reducer

    def start(self) -> Any:
        """Nothing: the first value is the aggregate."""
        return None

    def step(self, state: Any, inputs: Any) -> Any:
        """What the reducer gives."""
        return inputs.value if state is None else self._reducer(state, inputs.value)

    def merge(self, key: object, left: object, right: object) -> Any:
        """What the reducer gives."""
        return right if left is None else self._reducer(left, right)

    def load(self, data: bytes) -> Any:
        """By the store's serde."""
        return self._serde.from_bytes(data)

    def dump(self, state: object) -> bytes | None:
        """By the store's serde."""
        return self._serde.serialize(state)


class BuiltInRows(RowStreamAggregator):
    """`count()` and `agg(…)`; a state is the list of stored values.

    Args:
        node: the node's name, for errors.
        serde: of the store; an AggregateSerde, or one that stores the fields by name.
        edge: schema of the records, where it is known.
    """

    def __init__(self, node: str, aggregation: BuiltInAggregate, serde: Serde, edge: EdgeSchema | None) -> None:
        typed = edge is not None
        types = input_types(node, aggregation, edge) if edge is not None and typed else None
        self._parts = built_ins(aggregation, types)
        self._readers = [
            _reader(node, field.input, edge) if field.loop is None else _fields_of(field.loop.inputs)
            for field in aggregation.fields
        ]
        self._widths = [len(part.stored_names) for part in self._parts]
        self._first = [None if isinstance(part, Looped) else part.start()[0] for part in self._parts]
        self._bare = aggregation.bare
        self._serde = serde
        if not isinstance(serde, AggregateSerde):
            aggregate_serde(aggregation, serde)  # refuses an avg
        self._names = stored_field_names(aggregation)

    def inputs(self, record: Record) -> list[object]:
        """The inputs of the fields in order."""
        return [None if reader is None else reader(record) for reader in self._readers]

    def start(self) -> list[object]:
        """Nothing counted yet."""
        return [value for part in self._parts for value in part.start()]

    def step(self, state: Sequence[object], inputs: Any) -> list[object]:
        """A new list of stored values."""
        stepped: list[object] = []
        for part, width, value in zip(self._parts, self._widths, inputs, strict=True):
            offset = len(stepped)
            stepped.extend(part.step(state[offset : offset + width], value))
        return stepped

    def merge(self, key: Any, left: Any, right: Any) -> list[object]:
        """A new list of stored values."""
        merged: list[object] = []
        for part, width in zip(self._parts, self._widths, strict=True):
            fields = slice(len(merged), len(merged) + width)
            merged.extend(part.merge(left[fields], right[fields]))
        return merged

    def load(self, data: bytes) -> list[Any]:
        """The stored values."""
        if isinstance(self._serde, AggregateSerde):
            return self._serde.unpack(data)
        value = self._serde.from_bytes(data)
        if self._bare:
            return [value]
        stored = [field_of(value, name) for name in self._names]
        # a field that the row was stored without has its first value
        return (
            stored
            if None not in stored
            else [first if item is None else item for item, first in zip(stored, self._first, strict=True)]
        )

    def dump(self, state: Sequence[object]) -> bytes | None:
        """The stored values as the store keeps them."""
        if isinstance(self._serde, AggregateSerde):
            return self._serde.pack(state)
        return self._serde.serialize(self.visible(state))

    def visible(self, state: Sequence[Any]) -> Any:
        """The fields as a dict, or the one field."""
        return visible(self._parts, state, self._bare)


def row_aggregator(node: str, aggregation: Aggregation, serde: Serde, edge: EdgeSchema | None) -> RowStreamAggregator:
    """The row form of an aggregation.

    Raises:
        TopologyError: a built-in aggregate does not fit the schema.
    """
    match aggregation:
        case CallableAggregate():
            return CallableRows(aggregation, serde)
        case CallableReduce():
            return ReduceRows(aggregation, serde)
        case BuiltInAggregate():
            return BuiltInRows(node, aggregation, serde, edge)


def _fields_of(names: Sequence[str]) -> RecordFunction:
    return lambda record: tuple(field_of(record.value, name) for name in names)


def _reader(node: str, expression: pl.Expr | None, edge: EdgeSchema | None) -> RecordFunction | None:
    """How the input of a field is got from a record; a plain field without Polars, which takes 30 µs a record."""
    if expression is None:
        return None
    if expression.meta.undo_aliases().meta.is_column():
        (name,) = expression.meta.root_names()
        if name == TS:
            return lambda record: record.timestamp_ms
        if name != KEY and not name.startswith("__"):
            return lambda record: field_of(record.value, name)
    row = OneRow(node, [("input", expression)], edge)
    return lambda record: row.evaluate(record)[0]
