"""Which class runs which operator. To know what the kernel can do, read these two tables.

`ROWS` must know every operator. `COLUMNS` makes `None` where this operator, as written, has no column form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hayase.kernel.aggregate import StreamAggregateRows
from hayase.kernel.branch import BranchRows, SplitRows
from hayase.kernel.columns import ColumnNode, CompileContext, EdgeSchema
from hayase.kernel.filter import FilterRows
from hayase.kernel.flat_map_values import FlatMapValuesRows
from hayase.kernel.global_join import GlobalJoinRows
from hayase.kernel.map import MapRows
from hayase.kernel.map_values import MapValuesRows
from hayase.kernel.merge import MergeRows
from hayase.kernel.peek import PeekRows
from hayase.kernel.repartition_filter import RepartitionFilterRows
from hayase.kernel.rows import RowNode
from hayase.kernel.select_key import SelectKeyRows
from hayase.kernel.stream_table_join import StreamTableJoinRows
from hayase.kernel.table_filter import TableFilterRows
from hayase.kernel.table_map_values import TableMapValuesRows
from hayase.kernel.table_source import TableSourceRows
from hayase.kernel.table_to_stream import TableToStreamRows
from hayase.kernel.windowed_aggregate import StreamWindowedAggregateRows
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

RowFactory = Callable[[ProcessorNode], RowNode]
ColumnFactory = Callable[[ProcessorNode, Sequence[EdgeSchema], CompileContext], ColumnNode | None]


def _rows(made_from: Callable[[ProcessorNode, Any], RowNode]) -> RowFactory:
    return lambda node: made_from(node, node.operator)


ROWS: Mapping[type[op.Operator], RowFactory] = {
    op.Filter: _rows(FilterRows),
    op.MapValues: _rows(MapValuesRows),
    op.Map: _rows(MapRows),
    op.SelectKey: _rows(SelectKeyRows),
    op.FlatMapValues: _rows(FlatMapValuesRows),
    op.Peek: _rows(PeekRows),
    op.Merge: _rows(MergeRows),
    op.Split: _rows(SplitRows),
    op.Branch: _rows(BranchRows),
    op.RepartitionFilter: _rows(RepartitionFilterRows),
    op.TableSource: _rows(TableSourceRows),
    op.TableFilter: _rows(TableFilterRows),
    op.TableMapValues: _rows(TableMapValuesRows),
    op.TableToStream: _rows(TableToStreamRows),
    op.StreamAggregate: _rows(StreamAggregateRows),
    op.StreamWindowedAggregate: _rows(StreamWindowedAggregateRows),
    op.StreamTableJoin: _rows(StreamTableJoinRows),
    op.StreamGlobalTableJoin: _rows(GlobalJoinRows),
}

COLUMNS: Mapping[type[op.Operator], ColumnFactory] = {}
