"""What joins of a stream with a table and with a global table have in common in row form."""

from __future__ import annotations

from typing import TypeVar

from hayase.core.metrics import DROPPED_RECORDS
from hayase.core.records import Record
from hayase.kernel.frame.row_functions import Joiner
from hayase.kernel.node.row_node import OperatorRows, RowContext, TableRows
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamGlobalTableJoin, StreamTableJoin

JoinOperator = TypeVar("JoinOperator", bound=StreamTableJoin | StreamGlobalTableJoin)


class LookupRows(OperatorRows[JoinOperator]):
    """Joins records with rows of a table.

    Args:
        node: the node.
        operator: its operator.
        ctx: its context.
        table: the rows.
        join: makes the joined value.
    """

    def __init__(
        self, node: ProcessorNode, operator: JoinOperator, ctx: RowContext, table: TableRows, join: Joiner
    ) -> None:
        super().__init__(node, operator, ctx)
        self._table = table
        self._join = join

    def look_up(self, record: Record, key: object) -> None:
        """Join one record with the row of a key, of the table.

        Null values, and for inner joins null keys, are dropped.
        """
        left = self._operator.left
        if record.value is None or (key is None and not left):
            self.ctx.env.metrics.add(DROPPED_RECORDS, self.name)
            return
        row = self.row(record, key) if key is not None else None
        if row is None and not left:
            return
        self.ctx.forward(record.with_value(self._join(record, None if row is None else row[0])))

    def row(self, record: Record, key: object) -> tuple[object, int] | None:
        """Value and timestamp of the row for a record, `None` if there is none; the key is not null."""
        return self._table.get(key)
