"""Split a stream: each record goes to the branch of the first predicate that holds."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import row_predicate
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Branch, Split


class SplitRows(RowNode):
    """Split in row form. Predicates after the first that holds are not evaluated."""

    def __init__(self, node: ProcessorNode, operator: Split) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        edge = ctx.schemas.get(self._parent)
        self._predicates = [row_predicate(self.name, each, edge) for each in self._operator.predicates]
        self._children: dict[int | None, int] = {
            child.index: position for position, child in enumerate(ctx.children) if isinstance(child, BranchRows)
        }

    def process(self, record: Record[Any, Any]) -> None:
        """Send the record to its branch."""
        default = len(self._predicates) if self._operator.default else None
        index = next((i for i, holds in enumerate(self._predicates) if holds(record)), default)
        if index in self._children:
            self.ctx.forward_to(self._children[index], record)


class BranchRows(RowNode):
    """Branch in row form."""

    def __init__(self, node: ProcessorNode, operator: Branch) -> None:
        super().__init__(node.name)
        self.index = operator.index

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on."""
        self.ctx.forward(record)
