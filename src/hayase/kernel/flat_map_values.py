"""Zero or more values from each key and value."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import row_mapper
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import FlatMapValues


class FlatMapValuesRows(RowNode):
    """FlatMapValues in row form.

    All values of a record are taken from the mapper before the first is passed on, so an error leaves none of them. An
    expression that gives null gives no values.
    """

    def __init__(self, node: ProcessorNode, operator: FlatMapValues) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        mapper = row_mapper(self.name, self._operator.mapper, ctx.schemas.get(self._parent))
        if callable(self._operator.mapper):
            self._map = mapper
        else:
            self._map = lambda record: _values(mapper(record))

    def process(self, record: Record[Any, Any]) -> None:
        """Pass on one record per value, in order."""
        for value in list(self._map(record)):
            self.ctx.forward(record.with_value(value))


def _values(result: Any) -> Any:
    if result is None:
        return ()
    if not isinstance(result, list):
        raise TypeError(f"flat_map_values needs an expression that gives a list; it gives {result!r}")
    return result
