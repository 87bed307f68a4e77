"""New keys from keys and values."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import row_mapper
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import SelectKey


class SelectKeyRows(RowNode):
    """SelectKey in row form; the new key may be null."""

    def __init__(self, node: ProcessorNode, operator: SelectKey) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._map = row_mapper(self.name, self._operator.mapper, ctx.schemas.get(self._parent))

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on under its new key."""
        self.ctx.forward(record.with_key(self._map(record)))
