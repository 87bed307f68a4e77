"""From a logical plan to a topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hayase.dsl.builder import StreamsBuilder
from hayase.sql.analysis.pruning import pruned
from hayase.sql.analysis.steps import (
    Aggregate,
    Filter,
    FlatMap,
    JoinForeignKey,
    JoinStreams,
    JoinStreamTable,
    JoinTables,
    PartitionBy,
    Project,
    ReadSource,
    Step,
)
from hayase.sql.catalog.sources import DataSource
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.aggregate import aggregate
from hayase.sql.plan.context import PlanContext, Stage
from hayase.sql.plan.copartitioning import tables_to_partition
from hayase.sql.plan.joins import join_foreign_key, join_stream_table, join_streams, join_tables
from hayase.sql.plan.sink import Sink, project, write
from hayase.sql.plan.source import read_source
from hayase.sql.plan.stateless import filter_rows, flat_map, partition_by
from hayase.topology.topology import Topology

_FILTERED_TABLE = "KsqlTopic-Reduce"
"""Store of the table that a filter reads: the name does not change when a query is replaced."""


def build_topology(
    root: Project,
    sink: DataSource,
    functions: FunctionRegistry,
    settings: Mapping[str, object],
    registry: Any = None,
) -> Topology:
    """The topology of a plan whose result is written to a source.

    Raises:
        StatementError: an expression of the plan cannot be computed.
    """
    tables = frozenset(tables_to_partition(root))
    context = PlanContext(StreamsBuilder(), functions, settings, registry, tables)
    write(build_step(pruned(root), context), Sink(sink), context)
    return context.builder.build({"topology.optimization": "all"})


def build_step(step: Step, context: PlanContext) -> Stage:
    """The stream or table of a step, with all that is before it."""
    match step:
        case ReadSource():
            return read_source(step, context)
        case Filter(input=ReadSource() as source):
            # a table's rows are kept, so that a row that was not in the result before is not deleted from it
            store = _FILTERED_TABLE if source.rows.is_table else None
            return filter_rows(step, read_source(source, context, store), context)
        case Filter():
            return filter_rows(step, build_step(step.input, context), context)
        case PartitionBy():
            return partition_by(step, build_step(step.input, context), context)
        case FlatMap():
            return flat_map(step, build_step(step.input, context), context)
        case Aggregate():
            return aggregate(step, build_step(step.input, context), context)
        case Project():
            return project(step, build_step(step.input, context), context)
    return _build_join(step, context)


def _build_join(step: Step, context: PlanContext) -> Stage:
    left, right = (build_step(each, context) for each in step.inputs)
    match step:
        case JoinStreams():
            return join_streams(step, left, right, context)
        case JoinStreamTable():
            return join_stream_table(step, left, right, context)
        case JoinTables():
            return join_tables(step, left, right, context)
        case JoinForeignKey():
            return join_foreign_key(step, left, right, context)
    raise AssertionError(step)


def build_kept_table(step: ReadSource, store: str, context: PlanContext) -> Topology:
    """The topology that only keeps the rows of a table, in a store of that name."""
    stage = read_source(step, context, store)
    assert stage.table is not None
    return context.builder.build({"topology.optimization": "all"})
