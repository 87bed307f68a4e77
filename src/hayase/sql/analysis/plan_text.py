"""Logical plans as text, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterator

from hayase.sql.analysis.steps import (
    Aggregate,
    AggregateCall,
    Filter,
    FlatMap,
    JoinForeignKey,
    JoinStreams,
    PartitionBy,
    Project,
    ReadSource,
    Step,
)
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.text import expression_text, window_text, within_text


def plan_text(step: Step) -> str:
    """A line for each step, the last step first, what a step reads below it and further in."""
    return "\n".join(_lines(step, 0))


def _lines(step: Step, depth: int) -> Iterator[str]:
    yield "  " * depth + _line(step)
    for before in step.inputs:
        yield from _lines(before, depth + 1)


def _line(step: Step) -> str:
    match step:
        case ReadSource(source=source):
            return f"READ {source.kind.value} {source.name} FROM {source.topic}"
        case Filter(predicate=predicate, clause=clause):
            return f"{clause} {expression_text(predicate)}"
        case PartitionBy(expressions=expressions):
            return f"PARTITION BY {_named(expressions) or 'NULL'}"
        case FlatMap(calls=calls):
            return f"TABLE FUNCTIONS {_named(calls)}"
        case Aggregate():
            return _aggregate(step)
        case Project(key=key, values=values):
            keys = [f"{column} AS {name} KEY" for name, column in key]
            return f"SELECT {', '.join([*keys, *filter(None, [_named(values)])])}"
    return _join(step)


def _named(expressions: tuple[tuple[str, Expression], ...]) -> str:
    return ", ".join(f"{expression_text(expression)} AS {name}" for name, expression in expressions)


def _aggregate(step: Aggregate) -> str:
    calls = [f"{aggregate_text(call)} AS {call.name}" for call in step.aggregates]
    window = "" if step.window is None else f" WINDOW {window_text(step.window)}"
    final = " EMIT FINAL" if step.final else ""
    return f"GROUP BY {_named(step.group_by)}{window}{final}: {', '.join(calls)}"


def aggregate_text(call: AggregateCall) -> str:
    """A call of an aggregate function, the arguments that are literals last."""
    arguments = [*map(expression_text, call.arguments), *map(repr, call.function.literals)]
    return f"{call.function.name.upper()}({', '.join(arguments)})"


def _join(step: Step) -> str:
    kind = getattr(step, "kind", None)
    on = " = ".join(expression_text(getattr(step, side)) for side in ("left_key", "right_key"))
    what = "BY FOREIGN KEY" if isinstance(step, JoinForeignKey) else "WITH A TABLE"
    if isinstance(step, JoinStreams):
        what = f"STREAMS {within_text(step.within)}"
    return f"{'' if kind is None else kind.value} JOIN {what} ON {on}"
