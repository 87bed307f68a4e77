"""Drop null keys before a repartition."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.rows import RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import RepartitionFilter


class RepartitionFilterRows(RowNode):
    """RepartitionFilter in row form."""

    def __init__(self, node: ProcessorNode, operator: RepartitionFilter) -> None:
        super().__init__(node.name)
        self._keep_null_keys = operator.keep_null_keys

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on unless its key is null."""
        if record.key is not None or self._keep_null_keys:
            self.ctx.forward(record)
