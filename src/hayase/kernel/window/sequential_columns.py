"""The common part of windowed aggregates that process records one by one in column form: sessions, sliding windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Generic, Self, TypeVar, cast

import polars as pl

from hayase.core.metrics import DROPPED_RECORDS, FINAL_EMITTED, LATE_RECORDS
from hayase.kernel.aggregate.aggregator_columns import ColumnAggregator
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.window.sequential_states import States
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import StreamSessionAggregate, StreamSlidingAggregate

Aggregate = TypeVar("Aggregate", StreamSessionAggregate, StreamSlidingAggregate)


class LoopedAggregateColumns(ColumnNode, Generic[Aggregate]):
    """Built-in aggregates only, and the table may not be looked up.

    What a record does depends on those before it, so records are taken in one after the other, but over numbers: keys,
    inputs and what the store holds are decoded, and results encoded, for the whole epoch at once.
    """

    sessions: ClassVar[bool] = False
    """Whether the end of a window is its own, and not its start's."""

    def __init__(self, name: str, output: EdgeSchema, operator: Aggregate, aggregation: ColumnAggregator) -> None:
        super().__init__(name, output)
        self._operator: Aggregate = operator
        self._aggregation = aggregation
        self._states = States(aggregation.parts)

    @classmethod
    def compile(cls, node: ProcessorNode, edges: Sequence[EdgeSchema], ctx: CompileContext) -> Self | None:
        """The node; `None` if the aggregate, or its store, has no column form."""
        operator = cast("Aggregate", node.operator)
        if operator.cogrouped:
            return None
        aggregation = ColumnAggregator.compile(node, edges[0], ctx)
        if aggregation is None or aggregation.read:
            return None
        if operator.on_close:
            aggregation = dataclasses.replace(aggregation, caching=False)
        output = EdgeSchema(
            edges[0].key,
            aggregation.schema,
            windowed=True,
            table=True,
            old_values=operator.old_values,
            sessions=cls.sessions,
        )
        return cls(node.name, output, operator, aggregation)

    def _without(self, refused: pl.Series, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """The records that can be taken in; the others are counted."""
        ctx.metrics.add(DROPPED_RECORDS, self.name, int(refused.sum()))
        return frame.filter(~refused) if refused.any() else frame

    def _count_late(self, late: int, ctx: ColumnContext) -> None:
        ctx.metrics.add(DROPPED_RECORDS, self.name, late)
        ctx.metrics.add(LATE_RECORDS, self.name, late)

    def _count_final(self, results: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """What is sent because windows closed."""
        ctx.metrics.add(FINAL_EMITTED, self.name, results.height)
        return results
