"""Which class runs which operator. To know what the kernel can do, read these two tables.

`ROWS` must know every operator. `COLUMNS` makes `None` where this operator, as written, has no column form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hayase.kernel.aggregate.cogroup_merge import CogroupMergeRows
from hayase.kernel.aggregate.late_records import LateRecordsRows
from hayase.kernel.aggregate.stream_aggregate import StreamAggregateColumns, StreamAggregateRows
from hayase.kernel.aggregate.table_aggregate import TableAggregateColumns, TableAggregateRows
from hayase.kernel.foreign_key.left_columns import foreign_key_resolve_columns, foreign_key_subscribe_columns
from hayase.kernel.foreign_key.left_rows import ForeignKeyResolveRows, ForeignKeySubscribeRows
from hayase.kernel.foreign_key.right_columns import (
    foreign_key_fan_out_columns,
    foreign_key_look_up_columns,
    foreign_key_receive_columns,
)
from hayase.kernel.foreign_key.right_rows import ForeignKeyFanOutRows, ForeignKeyLookUpRows, ForeignKeyReceiveRows
from hayase.kernel.join.global_table import GlobalJoinRows, global_join_columns
from hayase.kernel.join.stream_join_window import StreamJoinWindowRows, stream_join_window_columns
from hayase.kernel.join.stream_self import StreamSelfJoinRows, stream_self_join_columns
from hayase.kernel.join.stream_stream_columns import stream_stream_join_columns
from hayase.kernel.join.stream_stream_rows import StreamStreamJoinRows
from hayase.kernel.join.stream_table import StreamTableJoinRows, stream_table_join_columns
from hayase.kernel.join.table_table import TableJoinRows, table_join_columns
from hayase.kernel.join.table_table_merge import TableJoinMergeRows, table_join_merge_columns
from hayase.kernel.node.column_node import ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import RowContext, RowNode
from hayase.kernel.stateless.branch import BranchRows, SplitRows, branch_columns, split_columns
from hayase.kernel.stateless.filter import FilterRows, filter_columns
from hayase.kernel.stateless.flat_map import FlatMapRows, flat_map_columns
from hayase.kernel.stateless.flat_map_values import FlatMapValuesRows, flat_map_values_columns
from hayase.kernel.stateless.foreach import ForeachRows, foreach_columns
from hayase.kernel.stateless.map import MapRows, map_columns
from hayase.kernel.stateless.map_values import MapValuesRows, map_values_columns
from hayase.kernel.stateless.merge import MergeRows, merge_columns
from hayase.kernel.stateless.peek import PeekRows, peek_columns
from hayase.kernel.stateless.process import ProcessRows
from hayase.kernel.stateless.repartition_filter import RepartitionFilterRows, repartition_filter_columns
from hayase.kernel.stateless.select_key import SelectKeyRows, select_key_columns
from hayase.kernel.stateless.set_timestamp import SetTimestampRows, set_timestamp_columns
from hayase.kernel.table.table_filter import TableFilterRows, table_filter_columns
from hayase.kernel.table.table_group_by import TableGroupByRows, table_group_by_columns
from hayase.kernel.table.table_map_values import TableMapValuesRows, table_map_values_columns
from hayase.kernel.table.table_source import TableSourceRows, table_source_columns
from hayase.kernel.table.table_suppress_columns import table_suppress_columns
from hayase.kernel.table.table_suppress_rows import TableSuppressRows
from hayase.kernel.table.table_to_stream import TableToStreamRows, table_to_stream_columns
from hayase.kernel.table.table_transform_values import TableTransformValuesRows
from hayase.kernel.window.session_aggregate import StreamSessionAggregateColumns, StreamSessionAggregateRows
from hayase.kernel.window.sliding_aggregate import StreamSlidingAggregateColumns, StreamSlidingAggregateRows
from hayase.kernel.window.time_window_aggregate import StreamWindowedAggregateColumns, StreamWindowedAggregateRows
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

RowFactory = Callable[[ProcessorNode, RowContext], RowNode]
ColumnFactory = Callable[[ProcessorNode, Sequence[EdgeSchema], CompileContext], ColumnNode | None]


def _rows(made_from: Callable[[ProcessorNode, Any, RowContext], RowNode]) -> RowFactory:
    return lambda node, ctx: made_from(node, node.operator, ctx)


ROWS: Mapping[type[op.Operator], RowFactory] = {
    op.Filter: _rows(FilterRows),
    op.MapValues: _rows(MapValuesRows),
    op.Map: _rows(MapRows),
    op.SelectKey: _rows(SelectKeyRows),
    op.SetTimestamp: _rows(SetTimestampRows),
    op.FlatMapValues: _rows(FlatMapValuesRows),
    op.FlatMap: _rows(FlatMapRows),
    op.Peek: _rows(PeekRows),
    op.Foreach: _rows(ForeachRows),
    op.Merge: _rows(MergeRows),
    op.Split: _rows(SplitRows),
    op.Branch: _rows(BranchRows),
    op.RepartitionFilter: _rows(RepartitionFilterRows),
    op.Process: _rows(ProcessRows),
    op.TableSource: _rows(TableSourceRows),
    op.TableFilter: _rows(TableFilterRows),
    op.TableMapValues: _rows(TableMapValuesRows),
    op.TableTransformValues: _rows(TableTransformValuesRows),
    op.TableToStream: _rows(TableToStreamRows),
    op.StreamAggregate: _rows(StreamAggregateRows),
    op.StreamWindowedAggregate: _rows(StreamWindowedAggregateRows),
    op.TableGroupBy: _rows(TableGroupByRows),
    op.TableAggregate: _rows(TableAggregateRows),
    op.TableJoin: _rows(TableJoinRows),
    op.TableJoinMerge: _rows(TableJoinMergeRows),
    op.TableSuppress: _rows(TableSuppressRows),
    op.ForeignKeySubscribe: _rows(ForeignKeySubscribeRows),
    op.ForeignKeyReceive: _rows(ForeignKeyReceiveRows),
    op.ForeignKeyLookUp: _rows(ForeignKeyLookUpRows),
    op.ForeignKeyFanOut: _rows(ForeignKeyFanOutRows),
    op.ForeignKeyResolve: _rows(ForeignKeyResolveRows),
    op.StreamSlidingAggregate: _rows(StreamSlidingAggregateRows),
    op.StreamSessionAggregate: _rows(StreamSessionAggregateRows),
    op.CogroupMerge: _rows(CogroupMergeRows),
    op.LateRecords: _rows(LateRecordsRows),
    op.StreamTableJoin: _rows(StreamTableJoinRows),
    op.StreamGlobalTableJoin: _rows(GlobalJoinRows),
    op.StreamJoinWindow: _rows(StreamJoinWindowRows),
    op.StreamStreamJoin: _rows(StreamStreamJoinRows),
    op.StreamSelfJoin: _rows(StreamSelfJoinRows),
}

COLUMNS: Mapping[type[op.Operator], ColumnFactory] = {
    op.Filter: filter_columns,
    op.MapValues: map_values_columns,
    op.Map: map_columns,
    op.SelectKey: select_key_columns,
    op.SetTimestamp: set_timestamp_columns,
    op.FlatMapValues: flat_map_values_columns,
    op.FlatMap: flat_map_columns,
    op.Peek: peek_columns,
    op.Foreach: foreach_columns,
    op.Merge: merge_columns,
    op.Split: split_columns,
    op.Branch: branch_columns,
    op.RepartitionFilter: repartition_filter_columns,
    op.TableSource: table_source_columns,
    op.TableFilter: table_filter_columns,
    op.TableMapValues: table_map_values_columns,
    op.TableToStream: table_to_stream_columns,
    op.TableGroupBy: table_group_by_columns,
    op.TableAggregate: TableAggregateColumns.compile,
    op.StreamAggregate: StreamAggregateColumns.compile,
    op.StreamWindowedAggregate: StreamWindowedAggregateColumns.compile,
    op.StreamSlidingAggregate: StreamSlidingAggregateColumns.compile,
    op.StreamSessionAggregate: StreamSessionAggregateColumns.compile,
    op.ForeignKeySubscribe: foreign_key_subscribe_columns,
    op.ForeignKeyReceive: foreign_key_receive_columns,
    op.ForeignKeyLookUp: foreign_key_look_up_columns,
    op.ForeignKeyFanOut: foreign_key_fan_out_columns,
    op.ForeignKeyResolve: foreign_key_resolve_columns,
    op.TableSuppress: table_suppress_columns,
    op.TableJoin: table_join_columns,
    op.TableJoinMerge: table_join_merge_columns,
    op.StreamTableJoin: stream_table_join_columns,
    op.StreamGlobalTableJoin: global_join_columns,
    op.StreamJoinWindow: stream_join_window_columns,
    op.StreamStreamJoin: stream_stream_join_columns,
    op.StreamSelfJoin: stream_self_join_columns,
}
