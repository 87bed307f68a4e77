"""The rows of a table with values that an object of the user makes."""

from __future__ import annotations

from typing import Any

from hayase.core.errors import TopologyError
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.stateless.process import TransformContext, living_processor
from hayase.kernel.table.table_step import TableStepRows
from hayase.processor.api import ValueTransformerWithKey
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableTransformValues


class TableTransformValuesRows(TableStepRows[TableTransformValues]):
    """TableTransformValues in row form, the only one."""

    def __init__(self, node: ProcessorNode, operator: TableTransformValues, ctx: RowContext) -> None:
        super().__init__(node, operator, ctx)
        stores = tuple(name for name in node.stores if name != operator.store)

        def make() -> tuple[ValueTransformerWithKey[object, object, object], TransformContext]:
            transformer = operator.supplier()
            if not isinstance(transformer, ValueTransformerWithKey):
                raise TopologyError(
                    "INVALID_PROCESSOR",
                    f"the supplier of this node gave {transformer!r}; it must make a ValueTransformerWithKey",
                    node=ctx.name,
                )
            return transformer, TransformContext(ctx, stores)

        self._transformer = living_processor(ctx, make, ("transform", ("key", "value")))

    def compute(self, key: object, value: object, timestamp_ms: int) -> Any:
        """What the transformer makes of the row; it is shown deletes."""
        return self._transformer.transform(key, value)
