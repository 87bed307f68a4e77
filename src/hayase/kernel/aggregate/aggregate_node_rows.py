"""What all aggregates of streams have in common as nodes in row form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, TypeVar

from hayase.core.metrics import DROPPED_RECORDS, LATE_RECORDS
from hayase.core.records import Record, Window
from hayase.kernel.aggregate.aggregator_rows import row_aggregator
from hayase.kernel.aggregate.late_records import LateChildren, without_late_children
from hayase.kernel.aggregate.stored_row import AggregateRows, Emitter, RowStore
from hayase.kernel.frame.stream_time import stream_time
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableEmitter, TableRows
from hayase.kernel.table.versioned_rows import VersionedRowStore
from hayase.state.stores.spec import StoreSpec
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamAggregate, WindowedOperator

AggregateOperator = TypeVar("AggregateOperator", bound=StreamAggregate | WindowedOperator)


class AggregateNode(OperatorRows[AggregateOperator]):
    """Keeps the rows of an aggregate's table; `process` says which of them a record updates.

    While it is made it asks its class, by `places` and `emitter`, where rows are and how updates are sent.
    """

    def __init__(self, node: ProcessorNode, operator: AggregateOperator, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        spec = ctx.env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._emitter = self.emitter(without_late_children(ctx), spec)
        self._aggregation = row_aggregator(self.name, operator.aggregation, spec.value_serde, self.edge)
        self._rows = AggregateRows(
            self.places(),
            self._aggregation,
            self._emitter,
            caching=spec.caching,
            old_values=operator.old_values,
        )

    @abstractmethod
    def places(self) -> RowStore | VersionedRowStore:
        """Where the rows are kept."""

    @abstractmethod
    def place(self, key: Any) -> tuple[Any, ...]:
        """Where the row of a table's key is kept."""

    def emitter(self, ctx: RowContext, spec: StoreSpec) -> Emitter:
        """How updates are sent. Members of a cogroup send every one: the node that merges them has the cache."""
        return TableEmitter(ctx, caching=spec.caching and not self._operator.cogrouped, key_bytes=self.place)

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the store."""
        return self

    def stored(self, place: tuple[object, ...]) -> tuple[object, int] | None:
        """Value and timestamp of the row at a place; `None` if there is none."""
        return self._rows.get(place)

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a key; see TableRows."""
        return None if key is None else self._rows.get(self.place(key))


Windowing = TypeVar("Windowing", bound=WindowedOperator)


class WindowedNode(AggregateNode[Windowing]):
    """An aggregate per key and window. The operator's stream time is the clock of its name."""

    def __init__(self, node: ProcessorNode, operator: Windowing, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._late = LateChildren(ctx)

    def shared(self) -> Self | None:
        """A member of the same cogroup that was made before.

        Its view of the store, which knows the store's time, is used by all.
        """
        for rows in self.ctx.tables.values():
            if isinstance(rows, type(self)) and rows._operator.store == self._operator.store:
                return rows
        return None

    def advance_clock(self, timestamp_ms: int) -> int:
        """The operator's stream time, this record's time included."""
        return stream_time(self.ctx.env.clocks, self.name, timestamp_ms)

    def refuse(self, record: Record, window: Window) -> None:
        """Count a record that is late for a window, and send it to who wants late records."""
        self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
        self.ctx.env.metrics.add(LATE_RECORDS, self.name)
        self._late.send(record, window)
