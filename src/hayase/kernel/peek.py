"""Call something for its side effect."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.rows import RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Peek


class PeekRows(RowNode):
    """Peek in row form."""

    def __init__(self, node: ProcessorNode, operator: Peek) -> None:
        super().__init__(node.name)
        self._action = operator.action

    def process(self, record: Record[Any, Any]) -> None:
        """Call the action, then pass the record on."""
        self._action(record.key, record.value)
        self.ctx.forward(record)
