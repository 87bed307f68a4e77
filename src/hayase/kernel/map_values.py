"""New values from keys and values."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import row_mapper
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import MapValues


class MapValuesRows(RowNode):
    """MapValues in row form. Called for null values too."""

    def __init__(self, node: ProcessorNode, operator: MapValues) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._map = row_mapper(self.name, self._operator.mapper, ctx.schemas.get(self._parent))

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on with its new value."""
        self.ctx.forward(record.with_value(self._map(record)))
