"""What the aggregation of a grouped table does with one value, in row form: added to a group, or taken out of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from hayase.core.records import Record
from hayase.kernel.aggregate.aggregator_rows import BuiltInRows, RowAggregator
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import Serde
from hayase.topology.operators import BuiltInAggregate, CallableTableAggregate, CallableTableReduce, TableAggregation


class RowTableAggregator(RowAggregator):
    """A RowAggregator whose inputs can be undone; `step` adds. A state of `None` is no row."""

    @abstractmethod
    def undo(self, state: Any, inputs: Any) -> Any:
        """The state without one input; `None` removes the row."""


class _SerdeStates(RowTableAggregator):
    """States are values as the store's serde writes them."""

    def __init__(self, serde: Serde) -> None:
        self._serde = serde

    def load(self, data: bytes) -> Any:
        """By the store's serde."""
        return self._serde.from_bytes(data)

    def dump(self, state: object) -> bytes | None:
        """By the store's serde."""
        return self._serde.serialize(state)


class CallableTableRows(_SerdeStates):
    """`aggregate(initializer, adder, subtractor)`."""

    def __init__(self, aggregation: CallableTableAggregate, serde: Serde) -> None:
        super().__init__(serde)
        self._aggregation = aggregation

    def start(self) -> Any:
        """What the initializer gives."""
        return self._aggregation.initializer()

    def step(self, state: Any, inputs: Any) -> Any:
        """What the adder gives."""
        return self._aggregation.adder(inputs.key, inputs.value, state)

    def undo(self, state: Any, inputs: Any) -> Any:
        """What the subtractor gives."""
        return self._aggregation.subtractor(inputs.key, inputs.value, state)


class TableReduceRows(_SerdeStates):
    """`reduce(adder, subtractor)`."""

    def __init__(self, aggregation: CallableTableReduce, serde: Serde) -> None:
        super().__init__(serde)
        self._aggregation = aggregation

    def start(self) -> Any:
        """Nothing: the first value is the aggregate."""
        return None

    def step(self, state: Any, inputs: Any) -> Any:
        """What the adder gives."""
        return inputs.value if state is None else self._aggregation.adder(state, inputs.value)

    def undo(self, state: Any, inputs: Any) -> Any:
        """What the subtractor gives."""
        return self._aggregation.subtractor(state, inputs.value)


class BuiltInTableRows(BuiltInRows, RowTableAggregator):
    """`count()` and `agg(…)`."""

    def undo(self, state: Sequence[object], inputs: Any) -> list[object]:
        """A new list of stored values."""
        undone: list[object] = []
        for part, width, value in zip(self._parts, self._widths, inputs, strict=True):
            offset = len(undone)
            undone.extend(part.undo(state[offset : offset + width], value))
        return undone


def row_table_aggregator(
    node: str, aggregation: TableAggregation, serde: Serde, edge: EdgeSchema | None
) -> RowTableAggregator:
    """The row form of an aggregation of a grouped table.

    Raises:
        TopologyError: a built-in aggregate does not fit the schema.
    """
    match aggregation:
        case CallableTableAggregate():
            return CallableTableRows(aggregation, serde)
        case CallableTableReduce():
            return TableReduceRows(aggregation, serde)
        case BuiltInAggregate():
            return BuiltInTableRows(node, aggregation, serde, edge)


def inputs_of(aggregation: RowTableAggregator, record: Record, value: object) -> Any:
    """What `step` and `undo` need of one value of an update."""
    return aggregation.inputs(record.with_value(value))
