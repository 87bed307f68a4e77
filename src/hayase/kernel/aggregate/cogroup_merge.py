"""The table of a cogroup: the updates of all its aggregates."""

from __future__ import annotations

from hayase.core.records import Record, Windowed
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableEmitter, TableRows
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import CogroupMerge


class CogroupMergeRows(OperatorRows[CogroupMerge]):
    """CogroupMerge in row form. It holds the cache of all members, so that a key's last update is the last one sent."""

    def __init__(self, node: ProcessorNode, operator: CogroupMerge, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        spec = ctx.env.store_spec(self._operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._emitter = TableEmitter(ctx, caching=spec.caching, key_bytes=self._place)

    def process(self, record: Record) -> None:
        """Take an update of a member."""
        self._emitter.emit(record)

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the shared store, as the first member reads them."""
        return self.ctx.table(self._parent)

    def _place(self, key: object) -> tuple[object, ...]:
        if isinstance(key, Windowed):
            return self._key_bytes(key.key), *key.window
        return (self._key_bytes(key),)
