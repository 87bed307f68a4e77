"""Which nodes of a sub-topology that runs in rows run in columns all the same: see `hayase.task.run_prefix`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import polars as pl

from hayase.compiler.pruning import Fields, looks_at, union
from hayase.kernel.frame.expressions import is_pure_expression
from hayase.kernel.frame.python_values import has_python_records
from hayase.kernel.node.column_node import ColumnNode
from hayase.kernel.node.edge import EdgeSchema
from hayase.processor.timestamps import TimestampExtractor
from hayase.serde.protocol import Schema
from hayase.task.compiled_subtopology import CompiledSource, Prefix, PrefixNode
from hayase.topology import operators as op
from hayase.topology.nodes import ProcessorNode

_WAYS_MAX = 64
"""Of nodes behind merges there is one copy for each way that leads to them.

Where these are more, merges run in rows.
"""

Child = PrefixNode | str


def find_prefix(
    source: CompiledSource,
    schema: EdgeSchema | None,
    nodes: Sequence[ProcessorNode],
    children: Mapping[str, tuple[str, ...]],
    compiled: Mapping[str, ColumnNode],
) -> Prefix | None:
    """The prefix of a source; `None` if nothing is gained by one.

    Args:
        source: the source.
        schema: of what its serdes make in columns, if that is what the nodes below were compiled for.
        nodes: processors of the sub-topology.
        children: by node name, in the order they were added.
        compiled: the column forms there are.
    """
    if schema is None or not has_python_records(schema) or not _has_time_in_columns(source.extractor, schema.value):
        return None
    finder = _Finder({node.name: node for node in nodes}, children, compiled)
    below = finder.below(source.name, schema)
    if finder.ways > _WAYS_MAX:
        finder.through_merges = False
        below = finder.below(source.name, schema)
    if all(isinstance(child, str) for child in below):
        return None
    return Prefix(schema, below, tuple(dict.fromkeys(_targets(below))))


class _Finder:
    def __init__(
        self,
        nodes: Mapping[str, ProcessorNode],
        children: Mapping[str, tuple[str, ...]],
        compiled: Mapping[str, ColumnNode],
    ) -> None:
        self._nodes = nodes
        self._children = children
        self._compiled = compiled
        self.ways = 0
        self.through_merges = True

    def below(self, name: str, schema: EdgeSchema) -> tuple[Child, ...]:
        """The children of a node that sends records of this schema."""
        return tuple(self._child(child, schema) for child in self._children.get(name, ()))

    def _child(self, name: str, schema: EdgeSchema) -> Child:
        node, compiled = self._nodes.get(name), self._compiled.get(name)
        if node is None or compiled is None or not self._takes(node.operator):
            return name
        self.ways += 1
        if self.through_merges and self.ways > _WAYS_MAX:
            return name
        if isinstance(node.operator, op.Merge):
            child = PrefixNode(name, None, schema, self.below(name, schema))
        else:
            child = PrefixNode(name, compiled, compiled.output, self.below(name, compiled.output))
        return child if self._is_worth_it(child) else name

    def _takes(self, operator: op.Operator) -> bool:
        match operator:
            case op.Merge():
                return self.through_merges
            case op.Branch() | op.RepartitionFilter():
                return True
        return _has_expressions_only(operator)

    def _is_worth_it(self, node: PrefixNode) -> bool:
        """Whether there is an expression in it or below.

        Of a Split all children go with it, as they do nothing without it.
        """
        operator = self._nodes[node.name].operator
        if isinstance(operator, op.Branch):
            return True
        return _has_expressions_only(operator) or any(isinstance(child, PrefixNode) for child in node.children)


def _has_expressions_only(operator: op.Operator) -> bool:
    match operator:
        case op.Filter(predicate=function) | op.SelectKey(mapper=function) | op.FlatMapValues(mapper=function):
            return _are_expressions([function])
        case op.MapValues(mapper=mapper):
            return _are_expressions(_functions(mapper))
        case op.Map(mapper=op.VectorizedFunction() as mapper):
            return _are_expressions([mapper])
        case op.Map(mapper=None, key=key, value=value):
            return _are_expressions([*_functions(key), *_functions(value)])
        case op.Split(predicates=predicates):
            return _are_expressions(predicates)
    return False


def _functions(mapper: object) -> list[object]:
    if mapper is None:
        return []
    return [function for _, function in mapper] if isinstance(mapper, tuple) else [mapper]


def _are_expressions(functions: Sequence[object]) -> bool:
    """Whether they are expressions without Python, which would be called for records whose turn has not come."""
    return all(map(_is_pure, functions))


def _is_pure(function: object) -> bool:
    if isinstance(function, op.VectorizedFunction):
        return function.pure
    return isinstance(function, pl.Expr) and is_pure_expression(function)


def _has_time_in_columns(extractor: TimestampExtractor, schema: Schema | None) -> bool:
    """Whether the time of a record can be had from a frame."""
    if extractor.kind != "field":
        return extractor.kind != "callable"
    fields: Mapping[str, pl.DataType] = dict(schema.fields) if schema is not None else {}
    for name in str(extractor.field).split("."):
        if name not in fields:
            return False
        dtype = fields[name]
        fields = {each.name: each.dtype for each in dtype.fields} if isinstance(dtype, pl.Struct) else {}  # type: ignore[misc]
    return True


def _targets(children: Sequence[Child]) -> Iterator[tuple[str, ...]]:
    for in_rows, group in groupby(children, key=lambda child: isinstance(child, str)):
        members = list(group)
        if in_rows:
            yield tuple(str(name) for name in members)
            continue
        for child in members:
            assert isinstance(child, PrefixNode)
            yield from _targets(child.children)


def prefix_fields(prefix: Prefix, nodes: Mapping[str, ProcessorNode]) -> Fields:
    """The value fields that the prefix looks at, or lets through to nodes that run in rows."""

    def below(children: Sequence[Child]) -> Fields:
        return union(None if isinstance(child, str) else of(child) for child in children)

    def of(node: PrefixNode) -> Fields:
        own, replaces = looks_at(nodes[node.name].operator)
        return own if replaces or own is None else union((own, below(node.children)))

    return below(prefix.children)
