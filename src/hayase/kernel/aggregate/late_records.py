"""Late records as a stream of their own."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.core.records import Record, Window, Windowed
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import LateRecords


class LateRecordsRows(RowNode):
    """LateRecords in row form. Its parent sends it late records alone, and its other children nothing of them."""

    def __init__(self, node: ProcessorNode, operator: LateRecords, ctx: RowContext) -> None:
        super().__init__(ctx)

    def process(self, record: Record) -> None:
        """Pass on."""
        self.ctx.forward(record)


class LateChildren:
    """The children of an aggregate that want its late records."""

    def __init__(self, ctx: RowContext) -> None:
        self._ctx = ctx
        self._children = [at for at, child in enumerate(ctx.children) if isinstance(child.operator, LateRecords)]

    def send(self, record: Record, window: Window) -> None:
        """Send them a record under its key and the window that refused it."""
        for child in self._children:
            self._ctx.forward_to(child, record.with_key(Windowed(record.key, window)))


class _OtherChildren(RowContext):
    """A context that forwards to some of the children."""

    __slots__ = ("_every", "_positions")

    def __init__(self, ctx: RowContext, positions: Sequence[int]) -> None:
        others = [ctx.children[position] for position in positions]
        super().__init__(ctx.name, ctx.env, others, ctx.tables, ctx.schemas, ctx.spill)
        self._every = ctx
        self._positions = positions

    def forward(self, record: Record) -> None:
        for position in self._positions:
            self._every.forward_to(position, record)


def without_late_children(ctx: RowContext) -> RowContext:
    """The same access to the task with only those children that take the updates of the table."""
    others = [at for at, child in enumerate(ctx.children) if not isinstance(child.operator, LateRecords)]
    return ctx if len(others) == len(ctx.children) else _OtherChildren(ctx, others)
