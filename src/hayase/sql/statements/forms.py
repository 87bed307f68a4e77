"""How a query's topology runs: which parts in columns, which row by row; for EXPLAIN."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hayase.compiler.compile import compile_subtopologies
from hayase.compiler.options import CompileOptions
from hayase.task.compiled_subtopology import CompiledSubtopology, PrefixNode
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import BuiltInAggregate, FieldAggregate, VectorizedFunction
from hayase.topology.topology import Topology

COLUMNS, ROWS = "columns", "rows"


def forms_of(topology: Topology) -> list[Mapping[str, Any]]:
    """A row for each sub-topology: its form and the reason, and the form of each step and of its expressions."""
    return [_form(name, each) for name, each in compile_subtopologies(topology, CompileOptions()).items()]


def _form(name: str, subtopology: CompiledSubtopology) -> Mapping[str, Any]:
    in_columns = subtopology.columns is not None
    early = set() if in_columns else {name for source in subtopology.sources for name in _prefix_names(source.prefix)}
    return {
        "subtopology": name,
        "form": COLUMNS if in_columns else ROWS,
        "reason": subtopology.reason,
        "steps": [_step(node, in_columns or node.name in early) for node in subtopology.processors],
    }


def _prefix_names(prefix: Any) -> Iterator[str]:
    waiting: list[Any] = [] if prefix is None else list(prefix.children)
    while waiting:
        child = waiting.pop()
        if isinstance(child, PrefixNode):
            yield child.name
            waiting.extend(child.children)


def _step(node: ProcessorNode, in_columns: bool) -> Mapping[str, Any]:
    expressions = [text for function in _functions(node.operator) for text in function.form]
    aggregation = getattr(node.operator, "aggregation", None)
    if isinstance(aggregation, BuiltInAggregate):
        expressions += [_aggregate(field) for field in aggregation.fields]
    step: dict[str, Any] = {"node": node.name, "form": COLUMNS if in_columns else ROWS}
    if in_columns and expressions:
        step["expressions"] = expressions
    return step


def _aggregate(field: FieldAggregate) -> str:
    if field.loop is not None:
        return f"{field.loop.text}: a loop over {', '.join(field.loop.inputs) or 'nothing'}"
    return f"{field.name}, {field.function}: columns"


def _functions(value: object) -> Iterator[VectorizedFunction]:
    """The functions with two forms in an operator."""
    if isinstance(value, VectorizedFunction):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from _functions(each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for item in dataclasses.fields(value):
            yield from _functions(getattr(value, item.name))
