"""Which class runs which operator. To know what the kernel can do, read these two tables.

`ROWS` must know every operator. `COLUMNS` makes `None` where this operator, as written, has no column form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hayase.kernel.columns import ColumnNode, CompileContext, EdgeSchema
from hayase.kernel.rows import RowNode
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

RowFactory = Callable[[ProcessorNode], RowNode]
ColumnFactory = Callable[[ProcessorNode, Sequence[EdgeSchema], CompileContext], ColumnNode | None]

ROWS: Mapping[type[op.Operator], RowFactory] = {}

COLUMNS: Mapping[type[op.Operator], ColumnFactory] = {}
