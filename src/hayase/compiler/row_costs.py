"""What records cost in rows: up to how many of them a task takes less time in rows than in columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from hayase.kernel.node.column_node import KEY
from hayase.topology.nodes import ProcessorNode
from hayase.topology.operators import VectorizedFunction

_FRAME_US = 4_000
"""About what an epoch in columns takes, however few its records are.

CPU time, as the other two: of a filter with a projection, and of a count, on two cores of a virtual machine with other
work. How many nodes there are is not looked at.
"""
_RECORD_US = 20
"""About what a record takes in rows."""
_EXPRESSION_US = 35
"""What an expression takes that is evaluated on a frame of one row."""


def records_faster_in_rows(processors: Sequence[ProcessorNode]) -> int:
    """The largest number of records of one task and epoch that take less CPU time in rows."""
    expressions = sum(1 for node in processors for each in _expressions(node.operator) if not _is_field(each))
    return _FRAME_US // (_RECORD_US + _EXPRESSION_US * expressions)


def _expressions(given: object) -> Iterator[pl.Expr]:
    """Those that an operator has, at any depth; functions with two forms have a row form of their own."""
    if isinstance(given, pl.Expr):
        yield given
    elif isinstance(given, Mapping):
        yield from _expressions(tuple(given.values()))
    elif isinstance(given, tuple | list):
        for each in given:
            yield from _expressions(each)
    elif dataclasses.is_dataclass(given) and not isinstance(given, type | VectorizedFunction):
        for field in dataclasses.fields(given):
            yield from _expressions(getattr(given, field.name))


def _is_field(expression: pl.Expr) -> bool:
    """Whether it names a field of the value, which rows read without Polars."""
    plain = expression.meta.undo_aliases().meta
    return plain.is_column() and plain.root_names() != [KEY]
