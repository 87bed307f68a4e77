"""New keys and values from keys and values."""

from __future__ import annotations

from typing import Any

from hayase.core.records import Record
from hayase.kernel.functions import RecordFunction, row_mapper
from hayase.kernel.rows import RowContext, RowNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import Map


class MapRows(RowNode):
    """Map in row form; timestamp and headers stay."""

    def __init__(self, node: ProcessorNode, operator: Map) -> None:
        super().__init__(node.name)
        self._parent = node.parents[0]
        self._operator = operator

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch."""
        super().open(ctx)
        operator, edge = self._operator, ctx.schemas.get(self._parent)
        self._key: RecordFunction = lambda record: record.key
        self._value: RecordFunction = lambda record: record.value
        if operator.key is not None:
            self._key = row_mapper(self.name, operator.key, edge)
        if operator.value is not None:
            self._value = row_mapper(self.name, operator.value, edge)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass on the record that the mapper makes."""
        mapper = self._operator.mapper
        if mapper is not None:
            key, value = mapper(record.key, record.value)
        else:
            key, value = self._key(record), self._value(record)
        self.ctx.forward(Record(key, value, record.timestamp_ms, record.headers))
