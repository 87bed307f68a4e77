"""Which tables other nodes look up."""

from __future__ import annotations

from collections.abc import Sequence

from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

_READERS = op.StreamTableJoin | op.TableJoin | op.ForeignKeyLookUp | op.ForeignKeyResolve


def read_tables(processors: Sequence[ProcessorNode]) -> frozenset[str]:
    """Nodes whose table is looked up, and those from which such a table is computed."""
    read = {node.operator.table for node in processors if isinstance(node.operator, _READERS)}
    for node in reversed(processors):
        operator = node.operator
        if not isinstance(operator, op.TableFilter | op.TableMapValues | op.TableTransformValues):
            continue
        if node.name in read and operator.store is None:
            read.add(operator.parent)
    return frozenset(read)
