"""Keep the records for which a predicate holds."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import row_predicate
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Filter


class FilterRows(RowNode):
    """Filter in row form. `negate` keeps exactly what would be dropped without, null results included."""

    def __init__(self, node: ProcessorNode, operator: Filter) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        self._holds = row_predicate(self.name, self._operator.predicate, ctx.schemas.get(self._parent))

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on if the predicate holds."""
        if self._holds(record) != self._operator.negate:
            self.ctx.forward(record)
