"""The rows of a table with values that an object of the user makes."""

from __future__ import annotations

from typing import Any

from hayase.core.errors import TopologyError
from hayase.kernel.node.row_node import RowContext
from hayase.kernel.stateless.process import TransformContext, user_code
from hayase.kernel.table.row_transform_node import TableStepRows
from hayase.processor.api import ValueTransformerWithKey
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import TableTransformValues


class TableTransformValuesRows(TableStepRows[TableTransformValues]):
    """TableTransformValues in row form, the only one. The transformer lives from the first `open` to `leave`."""

    def __init__(self, node: ProcessorNode, operator: TableTransformValues) -> None:
        super().__init__(node, operator)
        self._stores = tuple(name for name in node.stores if name != operator.store)
        self._transformer: ValueTransformerWithKey[object, object, object]
        self._context: TransformContext | None = None

    def open(self, ctx: RowContext) -> None:
        """Start of an epoch; of the task's first one here: a new transformer."""
        super().open(ctx)
        if self._context is not None:
            self._context.renew(ctx)
            return
        with user_code("init", ctx):
            transformer = self._operator.supplier()
            if not isinstance(transformer, ValueTransformerWithKey):
                raise TopologyError(
                    "INVALID_PROCESSOR",
                    f"the supplier of this node gave {transformer!r}; it must make a ValueTransformerWithKey",
                    node=self.name,
                )
            self._transformer = transformer
            context = self._context = TransformContext(ctx, self._stores)
            transformer.init(context)
        context.initialized = True

    def compute(self, key: object, value: object, timestamp_ms: int) -> Any:
        """What the transformer makes of the row; it is shown deletes."""
        return self._transformer.transform(key, value)

    def leave(self) -> None:
        """The task leaves this process: close the transformer, if its `init` was begun."""
        if self._context is not None:
            self._context.end()
            with user_code("close", self.ctx):
                self._transformer.close()
