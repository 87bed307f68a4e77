"""Which fields of a source's values anything downstream looks at, so that the others never become columns.

Every field is decoded and checked all the same: what a malformed record is does not depend on who reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode, SinkNode

Fields = frozenset[str] | None
"""Names of fields; `None` stands for all."""

_NONE: frozenset[str] = frozenset()


def needed_fields(
    source: str,
    processors: Sequence[ProcessorNode],
    sinks: Sequence[SinkNode],
    behind_edge: Callable[[SinkNode], Fields],
) -> Fields:
    """The value fields that the nodes below a source (or below any other node) look at.

    Args:
        source: name of the node whose values are meant.
        processors: of its sub-topology.
        sinks: of its sub-topology.
        behind_edge: what the receiver of a sink's records looks at.
    """
    children: dict[str, list[ProcessorNode | SinkNode]] = {}
    every: list[ProcessorNode | SinkNode] = [*processors, *sinks]
    for node in every:
        for parent in node.parents:
            children.setdefault(parent, []).append(node)

    def below(name: str) -> Fields:
        return union(of(child) for child in children.get(name, ()))

    def of(node: ProcessorNode | SinkNode) -> Fields:
        if isinstance(node, SinkNode):
            return behind_edge(node)
        own, replaces = looks_at(node.operator)
        return own if replaces or own is None else union((own, below(node.name)))

    return below(source)


def looks_at(operator: op.Operator) -> tuple[Fields, bool]:
    """The fields that an operator looks at, and whether what it sends on no longer has its input's fields."""
    match operator:
        case op.Filter(predicate=expression):
            return _roots([expression]), False
        case op.SelectKey(mapper=expression) | op.SetTimestamp(mapper=expression):
            return _roots([expression]), False
        case op.MapValues(mapper=mapper):
            return _roots(_expressions(mapper)), True
        case op.Map(mapper=op.VectorizedFunction() as mapper):
            return _roots([mapper]), True
        case op.Map(mapper=None, key=key, value=value):
            return _roots([*_expressions(key), *_expressions(value)]), True
        case op.FlatMapValues(mapper=expression):
            return _roots([expression]), True
        case op.Split(predicates=predicates):
            return _roots(predicates), False
        case op.Merge() | op.Branch() | op.RepartitionFilter():
            return _NONE, False
        case op.StreamAggregate(aggregation=op.BuiltInAggregate(fields=fields)):
            return _roots([f.input for f in fields if f.input is not None]), True
        case op.WindowedOperator(aggregation=op.BuiltInAggregate(fields=fields)):
            return _roots([f.input for f in fields if f.input is not None]), True
        case op.TableAggregate(aggregation=op.BuiltInAggregate(fields=fields)):
            return _roots([f.input for f in fields if f.input is not None]), True
    return None, True


def _expressions(mapper: object) -> list[object]:
    return [expression for _, expression in mapper] if isinstance(mapper, tuple) else [mapper]


def _roots(expressions: Iterable[object]) -> Fields:
    names: set[str] = set()
    for expression in expressions:
        if isinstance(expression, op.VectorizedFunction):
            if expression.reads is None:
                return None
            names.update(expression.reads)
            continue
        if not isinstance(expression, pl.Expr):
            return None
        names.update(name for name in expression.meta.root_names() if not name.startswith("__"))
    return frozenset(names)


def union(parts: Iterable[Fields]) -> Fields:
    """The fields of all parts."""
    names: set[str] = set()
    for part in parts:
        if part is None:
            return None
        names |= part
    return frozenset(names)
