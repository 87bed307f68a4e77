"""A table's updates become a stream."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.rows import RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableToStream


class TableToStreamRows(RowNode):
    """TableToStream in row form."""

    def __init__(self, node: ProcessorNode, operator: TableToStream) -> None:
        super().__init__(node.name)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass on the new value, null for a delete."""
        self.ctx.forward(record.with_value(record.value.new))
