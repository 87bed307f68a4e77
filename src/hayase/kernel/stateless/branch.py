"""Split a stream: each record goes to the branch of the first predicate that holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.core.records import Record
from hayase.kernel.frame.callables import call_each
from hayase.kernel.frame.expressions import predicate_of, visible
from hayase.kernel.frame.python_values import has_python_records, record_keys, record_values
from hayase.kernel.frame.row_functions import row_predicate
from hayase.kernel.node.column_node import ColumnContext, ColumnNode, CompileContext, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Branch, Split

BRANCH = "__branch"
"""Column between a Split and its Branches: the index of the branch."""


class SplitRows(OperatorRows[Split]):
    """Split in row form. Predicates after the first that holds are not evaluated."""

    def __init__(self, node: ProcessorNode, operator: Split, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        edge = self.edge
        self._predicates = [row_predicate(self.name, each, edge) for each in self._operator.predicates]
        self._children: dict[int | None, int] = {
            child.operator.index: position
            for position, child in enumerate(ctx.children)
            if isinstance(child.operator, Branch)
        }

    def process(self, record: Record) -> None:
        """Send the record to its branch."""
        default = len(self._predicates) if self._operator.default else None
        index = next((i for i, holds in enumerate(self._predicates) if holds(record)), default)
        if index in self._children:
            self.ctx.forward_to(self._children[index], record)


class BranchRows(RowNode):
    """Branch in row form."""

    def __init__(self, node: ProcessorNode, operator: Branch, ctx: RowContext) -> None:
        super().__init__(ctx)

    def process(self, record: Record) -> None:
        """Pass the record on."""
        self.ctx.forward(record)


class SplitColumns(ColumnNode):
    """Split in column form: the rows that have a branch, with its index in a column of their own.

    Args:
        predicates: expressions that are never null, or callables.
    """

    def __init__(
        self,
        name: str,
        output: EdgeSchema,
        predicates: Sequence[Callable[[Any, Any], bool] | pl.Expr],
        *,
        default: bool,
    ) -> None:
        super().__init__(name, output)
        self._predicates = predicates
        self._default = len(predicates) if default else None

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """Rows with the index of their branch."""
        frame = inputs[0]
        expressions = [each for each in self._predicates if isinstance(each, pl.Expr)]
        if len(expressions) == len(self._predicates):
            placed = evaluate(frame, lambda part: self._placed(part, expressions), ctx)
        else:
            placed = self._called(frame, ctx)
        return placed.filter(pl.col(BRANCH).is_not_null())

    def _placed(self, frame: pl.DataFrame, predicates: Sequence[pl.Expr]) -> pl.DataFrame:
        if frame.height == 1:  # a record on which a batch failed: predicates after the first that holds do not count
            for index, holds in enumerate(predicates):
                if frame.select(holds.alias(BRANCH)).item():
                    return frame.with_columns(pl.lit(index, pl.Int32).alias(BRANCH))
            return frame.with_columns(pl.lit(self._default, pl.Int32).alias(BRANCH))
        branches = [pl.when(holds).then(pl.lit(index, pl.Int32)) for index, holds in enumerate(predicates)]
        return frame.with_columns(pl.coalesce(*branches, pl.lit(self._default, pl.Int32)).alias(BRANCH))

    def _called(self, frame: pl.DataFrame, ctx: ColumnContext) -> pl.DataFrame:
        """With a callable among the predicates: record by record, each predicate only if none before it holds."""
        rows = [frame[row : row + 1] for row in range(frame.height)]
        arguments = record_keys(frame, self.output), record_values(frame, self.output), rows

        def branch_of(key: object, value: object, row: pl.DataFrame) -> int | None:
            for index, holds in enumerate(self._predicates):
                if row.select(holds).item() if isinstance(holds, pl.Expr) else holds(key, value):
                    return index
            return self._default

        kept, branches = call_each(frame, arguments, branch_of, ctx)
        return kept.with_columns(pl.Series(BRANCH, branches, dtype=pl.Int32))


class BranchColumns(ColumnNode):
    """Branch in column form."""

    def __init__(self, name: str, output: EdgeSchema, index: int) -> None:
        super().__init__(name, output)
        self._index = index

    def run(self, inputs: Sequence[pl.DataFrame], ctx: ColumnContext) -> pl.DataFrame:
        """The rows of this branch."""
        return inputs[0].filter(pl.col(BRANCH) == self._index).drop(BRANCH)


def split_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Split)
    calls = any(not isinstance(each, pl.Expr) for each in operator.predicates)
    if calls and not has_python_records(edge):
        return None
    types = visible(edge)
    predicates = [
        predicate_of(node.name, each, types) if isinstance(each, pl.Expr) else each for each in operator.predicates
    ]
    return SplitColumns(node.name, edge, predicates, default=operator.default)


def branch_columns(node: ProcessorNode, inputs: Sequence[EdgeSchema], ctx: CompileContext) -> ColumnNode | None:
    """The column form."""
    operator, (edge,) = node.operator, inputs
    assert isinstance(operator, Branch)
    return BranchColumns(node.name, edge, operator.index)
