"""Joiners in column form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import polars as pl

from hayase.kernel.frame.callables import call_each, with_values
from hayase.kernel.frame.expressions import CompiledValue, carried, compile_value, visible
from hayase.kernel.frame.python_values import (
    has_python_records,
    has_python_values,
    record_keys,
    record_values,
    values_of,
)
from hayase.kernel.frame.row_functions import LEFT, RIGHT
from hayase.kernel.frame.vectorized import with_new_values, with_null
from hayase.kernel.node.column_node import NULL, FailureHandler, evaluate
from hayase.kernel.node.edge import EdgeSchema
from hayase.serde.protocol import Schema
from hayase.topology.operators import Fields, VectorizedFunction


class JoinedValues(ABC):
    """Makes the values of a join.

    Args:
        schema: of the values made.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @abstractmethod
    def join(self, stream: pl.DataFrame, rows: pl.DataFrame, ctx: FailureHandler) -> pl.DataFrame:
        """The stream's rows with new values.

        Args:
            stream: the left side.
            rows: the right side, aligned: its fields, and `__null` where there is no row.
            ctx: handles records on which the joiner fails.
        """


class JoinedByExpressions(JoinedValues):
    """A joiner of expressions; takes only the columns that they name."""

    def __init__(self, value: CompiledValue, edge: EdgeSchema, right: Schema) -> None:
        super().__init__(value.schema)
        named = {name for expression in value.expressions for name in expression.meta.root_names()}
        self._value = value
        self._left = [pl.col(name).alias(LEFT + name) for name in edge.value.names if LEFT + name in named]
        self._plain = [name for name in edge.value.names if name in named]
        self._right = [pl.col(name).alias(RIGHT + name) for name in right.names if RIGHT + name in named]

    def join(self, stream: pl.DataFrame, rows: pl.DataFrame, ctx: FailureHandler) -> pl.DataFrame:
        """See JoinedValues."""
        kept = carried(stream)
        sides = stream.select(*kept, *self._plain, *self._left).with_columns(rows.select(self._right).get_columns())
        return evaluate(sides, lambda part: self._value.on(part, kept), ctx)


class JoinedByCalls(JoinedValues):
    """A callable joiner whose results have a schema."""

    def __init__(self, joiner: Callable[[Any, Any, Any], Any], edge: EdgeSchema, right: Schema, schema: Schema) -> None:
        super().__init__(schema)
        self._joiner = joiner
        self._edge = edge
        self._right = right

    def join(self, stream: pl.DataFrame, rows: pl.DataFrame, ctx: FailureHandler) -> pl.DataFrame:
        """See JoinedValues."""
        arguments = (
            record_keys(stream, self._edge),
            record_values(stream, self._edge),
            values_of(rows, self._right, rows[NULL]),
        )
        frame, results = call_each(stream.select(carried(stream)), arguments, self._joiner, ctx)
        return with_values(frame, results, self.schema, ctx)


class JoinedVectorized(JoinedValues):
    """The column form of a joiner with two forms."""

    def __init__(self, joiner: VectorizedFunction) -> None:
        super().__init__(joiner.schema)
        self._joiner = joiner

    def join(self, stream: pl.DataFrame, rows: pl.DataFrame, ctx: FailureHandler) -> pl.DataFrame:
        """See JoinedValues."""
        results = with_null(self._joiner.columns(stream, rows).frame, self.schema)
        return with_new_values(stream, carried(stream), results)


def compile_joiner(
    node: str,
    joiner: Callable[[Any, Any, Any], Any] | pl.Expr | Fields,
    edge: EdgeSchema,
    right: Schema,
    schema: Schema | None,
) -> JoinedValues | None:
    """The column form of a joiner; a callable has one if the schema of its results is known.

    Raises:
        TopologyError: see `compiled.result_type`.
    """
    if isinstance(joiner, pl.Expr | tuple):
        types = visible(edge)
        types.update({LEFT + name: dtype for name, dtype in edge.value.fields})
        types.update({RIGHT + name: dtype for name, dtype in right.fields})
        return JoinedByExpressions(compile_value(node, joiner, types), edge, right)
    if isinstance(joiner, VectorizedFunction):
        return JoinedVectorized(joiner)
    if schema is None or not (has_python_values(schema) and has_python_values(right) and has_python_records(edge)):
        return None
    return JoinedByCalls(joiner, edge, right, schema)
