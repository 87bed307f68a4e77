"""Reading tables in column form, with or without a store.

What was looked up, with what is yet to be done to it done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from hayase.kernel.frame.order import LookupOrder, RecordOrder
from hayase.kernel.join.joined_tables_columns import JoinedTables
from hayase.kernel.join.lookup_columns import look_up, view_rows
from hayase.kernel.node.column_node import NULL, TS, ColumnContext, CompileContext, TableColumns
from hayase.kernel.table.view_columns import IndirectTable, TableView
from hayase.topology.operators import TableFilter, TableJoinMerge, TableMapValues, TableSuppress, TableTransformValues


class JoinedView(IndirectTable):
    """A join of two tables without a store, for readers: what is read is read from the two tables.

    Args:
        joined: makes its rows.
    """

    def __init__(self, joined: JoinedTables) -> None:
        self.joined = joined


@dataclass(frozen=True, slots=True)
class Base:
    """The table with a store from which the table that is read is made.

    Attributes:
        names: fields of its value.
        order: which updates of it a row sees.
    """

    names: Sequence[str]
    order: LookupOrder


@dataclass(frozen=True, slots=True)
class TableReader:
    """How one node reads a table; made by `table_reader_columns`.

    Attributes:
        table: the node that is read.
        source: where its rows come from: a table with a store, or the two tables of a join without one.
    """

    table: str
    source: Base | tuple[TableReader, TableReader]

    def read(self, asking: pl.DataFrame, ctx: ColumnContext) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The row of the table for each asking row, as it is when that row is processed.

        Args:
            asking: has `__key`, `__ts` and order columns.
            ctx: of the reading node; decides about rows for which user code of the table fails.

        Returns:
            The asking rows, without those that failed; and for each the table's fields, `__null` (no row) and `__ts`.
        """
        table = ctx.table(self.table)
        base = table.base if isinstance(table, TableView) else table
        if isinstance(self.source, Base):
            rows = look_up(asking, base, self.source.names, self.source.order)
        else:
            asking, rows = self._joined(asking, base, ctx)
        asking, rows = view_rows(asking, rows, table, ctx)
        return asking, rows.with_columns(pl.when(~pl.col(NULL)).then(pl.col(TS)).alias(TS))

    def _joined(
        self, asking: pl.DataFrame, base: TableColumns, ctx: ColumnContext
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        assert isinstance(base, JoinedView) and not isinstance(self.source, Base)
        asking, left = self.source[0].read(asking, ctx)
        number = f"__row.{self.table}"
        numbered = asking.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(number))
        again, right = self.source[1].read(numbered, ctx)
        if again.height < asking.height:
            left = left.select(pl.all().gather(again[number]))
        again = again.drop(number)
        times = pl.select(pl.max_horizontal(left[TS], right[TS]).alias(TS)).to_series()
        joined, kept = base.joined.join(again.with_columns(times.fill_null(-1)), left, right, ctx)
        if kept is not None:
            again, times = again.filter(kept), times.filter(kept)
        return again, joined.with_columns(times)


def table_reader(reader: str, stream: str, table: str, ctx: CompileContext) -> TableReader | None:
    """How a node reads a table; `None` if that one has no column form, or order columns cannot tell what is seen.

    Args:
        reader: the node that reads.
        stream: its parent, whose rows ask.
        table: the node that is read.
        ctx: of the reader.
    """
    operators = {node.name: node.operator for node in ctx.nodes}
    edge, base = ctx.tables.get(table), table
    if edge is None or edge.windowed:
        return None
    operator = operators.get(base)
    while isinstance(operator, TableFilter | TableMapValues) and operator.store is None:
        base = operator.parent
        operator = operators.get(base)
    if isinstance(operator, TableJoinMerge) and operator.store is None:
        left = table_reader(reader, stream, operator.left, ctx)
        right = table_reader(reader, stream, operator.right, ctx)
        return None if left is None or right is None else TableReader(table, (left, right))
    stored = ctx.tables.get(base)
    if stored is None or isinstance(operator, TableSuppress | TableTransformValues):
        return None
    order = RecordOrder(ctx.nodes, ctx.stores, caching=ctx.caching).lookup(reader, stream, base)
    return None if order is None else TableReader(table, Base(stored.value.names, order))
