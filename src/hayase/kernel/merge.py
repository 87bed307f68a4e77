"""One stream out of several."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.rows import RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Merge


class MergeRows(RowNode):
    """Merge in row form."""

    def __init__(self, node: ProcessorNode, operator: Merge) -> None:
        super().__init__(node.name)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on, whichever parent it comes from."""
        self.ctx.forward(record)
