"""What plain and windowed aggregates have in common as nodes in row form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from hayase.kernel.aggregate_rows import AggregateRows, Places
from hayase.kernel.row_aggregation import row_aggregation
from hayase.kernel.rows import OperatorRows, RowContext, TableEmitter, TableRows
from hayase.topology.operators import StreamAggregate, StreamWindowedAggregate

AggregateOperator = TypeVar("AggregateOperator", bound=StreamAggregate | StreamWindowedAggregate)


class AggregateNode(OperatorRows[AggregateOperator]):
    """Keeps the rows of an aggregate's table; `process` says which of them a record updates."""

    @abstractmethod
    def places(self) -> Places:
        """Where the rows are kept."""

    @abstractmethod
    def place(self, key: Any) -> tuple[Any, ...]:
        """Where the row of a table's key is kept."""

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator = self._operator
        spec = ctx.env.store_spec(operator.store)
        self._key_bytes = spec.key_serde.to_bytes
        self._emitter = TableEmitter(ctx, caching=spec.caching, key_bytes=self.place)
        self._aggregation = row_aggregation(self.name, operator.aggregation, spec.value_serde, self.edge)
        self._rows = AggregateRows(
            self.places(),
            self._aggregation,
            self._emitter,
            caching=spec.caching,
            old_values=operator.old_values,
        )

    def flush(self) -> None:
        """Send on what the cache holds."""
        self._emitter.flush()

    def table_rows(self) -> TableRows:
        """The rows of the store."""
        return self

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the row of a key; see TableRows."""
        return None if key is None else self._rows.get(self.place(key))
