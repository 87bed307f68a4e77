"""What `map_values`, `select_key` and `flat_map_values` have in common: one mapper, called with key and value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from hayase.kernel.frame.callables import call_each
from hayase.kernel.frame.python_values import has_python_records, has_python_values, record_keys, record_values
from hayase.kernel.frame.row_functions import row_mapper
from hayase.kernel.node.column_node import ColumnContext, ColumnNode
from hayase.kernel.node.edge import EdgeSchema
from hayase.kernel.node.row_node import OperatorRows, RowContext
from hayase.serde.protocol import Schema
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import FlatMapValues, MapValues, SelectKey

Mapping = MapValues | SelectKey | FlatMapValues


class MapperRows(OperatorRows[Mapping]):
    """The row form: `_map` gives what the mapper makes of a record."""

    def __init__(self, node: ProcessorNode, operator: Mapping, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        self._map = row_mapper(self.name, self._operator.mapper, self.edge)


class MapperCalls(ColumnNode):
    """The column form of a callable whose results have a schema.

    Args:
        edge: of the records that come in.
        output: of those that go on.
        mapper: the callable.
        schema: of its results.
    """

    def __init__(
        self, name: str, edge: EdgeSchema, output: EdgeSchema, mapper: Callable[[Any, Any], Any], schema: Schema
    ) -> None:
        super().__init__(name, output)
        self._edge = edge
        self._mapper = mapper
        self._schema = schema

    def called(self, frame: pl.DataFrame, kept: Sequence[str], ctx: ColumnContext) -> tuple[pl.DataFrame, list[Any]]:
        """The kept columns of the rows that did not fail, and what the mapper made of each."""
        arguments = record_keys(frame, self._edge), record_values(frame, self._edge)
        return call_each(frame.select(kept), arguments, self._mapper, ctx)


def called_schema(operator: Mapping, edge: EdgeSchema) -> Schema | None:
    """The schema of a callable's results; `None` if it has no column form: that or the edge's values are unknown."""
    if operator.schema is None or not has_python_values(operator.schema) or not has_python_records(edge):
        return None
    return operator.schema
