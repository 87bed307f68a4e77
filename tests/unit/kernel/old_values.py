"""Sets `old_values` on the operators of a case as the DSL does when it builds a topology."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hayase.topology import operators as op
from hayase.topology.nodes import Node, ProcessorNode

_SENDERS = op.TableSource | op.TableFilter | op.TableMapValues | op.StreamAggregate | op.WindowedOperator


def with_old_values(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, with `old_values` set on the operators of tables that are to send old values.

    A table filter asks the table that it filters for old values, to leave out needless deletes. It gets them from an
    aggregate, from any table with a store, and through filters and mappers without a store if their parent can give
    them; nothing is materialised for it. What is asked stays asked: a stored filter that is filtered again sends old
    values, and so leaves out needless deletes as well.
    """
    tables = {node.name: node for node in nodes if isinstance(node, ProcessorNode)}
    asked: set[str] = set()
    for node in tables.values():
        if isinstance(node.operator, op.TableFilter) and _ask(node.operator.parent, tables, asked):
            asked.add(node.name)
    return tuple(_marked(node) if node.name in asked else node for node in nodes)


def _ask(name: str, tables: dict[str, ProcessorNode], asked: set[str]) -> bool:
    """Ask a table for old values; whether it will send them."""
    operator = tables[name].operator
    match operator:
        case op.TableSource():
            granted = operator.store is not None
        case op.TableFilter() | op.TableMapValues():
            granted = operator.store is not None or _ask(operator.parent, tables, asked)
        case op.StreamAggregate() | op.WindowedOperator():
            granted = True
        case _:
            granted = False
    if granted:
        asked.add(name)
    return granted


def _marked(node: Node) -> Node:
    assert isinstance(node, ProcessorNode)
    if isinstance(node.operator, _SENDERS):
        return dataclasses.replace(node, operator=dataclasses.replace(node.operator, old_values=True))
    return node
