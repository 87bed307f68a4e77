"""What a new definition may change of a query, so that its state goes on to be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hayase.sql.analysis.plan_text import aggregate_text
from hayase.sql.analysis.rewrite import column_refs
from hayase.sql.analysis.steps import (
    Aggregate,
    Filter,
    FlatMap,
    JoinForeignKey,
    JoinStreams,
    JoinStreamTable,
    JoinTables,
    PartitionBy,
    Step,
)
from hayase.sql.ast.expressions import Expression
from hayase.sql.ast.text import expression_text
from hayase.sql.catalog.sources import ROWTIME
from hayase.sql.errors import StatementError
from hayase.sql.types.sql_types import quoted_name

_NAMES: Mapping[type[Step], str] = {
    JoinStreams: "StreamStreamJoin",
    JoinStreamTable: "StreamTableJoin",
    JoinTables: "TableTableJoin",
    JoinForeignKey: "ForeignKeyTableTableJoin",
    FlatMap: "StreamFlatMap",
}
_BINDING = (Aggregate, PartitionBy, *_NAMES)


@dataclass(frozen=True, slots=True)
class StepShape:
    """A step whose state or keys bind later definitions.

    Attributes:
        kind: of the step.
        refused: ksqlDB's name of a step that no definition may replace; `None`: it may be replaced by its like.
        keys: texts of the expressions of its key.
        calls: texts of its aggregate functions, in order.
        reads: the columns that an aggregation and the filters before it read, in order.
    """

    kind: str
    refused: str | None = None
    keys: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepShape:
        """A shape that `to_json` wrote."""
        keys, calls, reads = (tuple(data[name]) for name in ("keys", "calls", "reads"))
        return cls(data["kind"], data["refused"], keys, calls, reads)

    def to_json(self) -> dict[str, Any]:
        """What JSON keeps of it."""
        return asdict(self)


def shapes_of(plan: Step) -> tuple[StepShape, ...]:
    """The steps of a plan that bind later definitions, from the sources on."""
    found = [shape for before in plan.inputs for shape in shapes_of(before)]
    if isinstance(plan, _BINDING):
        found.append(_shape(plan))
    return tuple(found)


def check_query_upgrade(query_id: str, before: Sequence[StepShape], after: Sequence[StepShape]) -> None:
    """Stateless steps may change, and what an aggregation reads must stay.

    Raises:
        StatementError: `CANNOT_REPLACE`: another step is there, or changed.
    """
    for shape in (*before, *after):
        if shape.refused is not None:
            raise StatementError("CANNOT_REPLACE", f"Upgrades not yet supported for {shape.refused}")
    if len(before) != len(after):
        raise StatementError(
            "CANNOT_REPLACE",
            f"Query {query_id} cannot be replaced: its steps with a key or state of their own were "
            f"{[shape.kind for shape in before]}, now they are {[shape.kind for shape in after]}",
        )
    for one, other in zip(before, after, strict=True):
        _check_step(one, other)


def _shape(step: Step) -> StepShape:
    kind = type(step).__name__
    if isinstance(step, PartitionBy):
        return StepShape(kind, keys=_texts(step.expressions))
    if not isinstance(step, Aggregate):
        return StepShape(kind, refused=_NAMES[type(step)])
    refused = "TableAggregate" if step.input.rows.is_table else None
    return StepShape(
        kind,
        refused="StreamWindowedAggregate" if step.window is not None else refused,
        keys=_texts(step.group_by),
        calls=tuple(map(aggregate_text, step.aggregates)),
        reads=tuple(_read_columns(step)),
    )


def _texts(expressions: Sequence[tuple[str, Expression]]) -> tuple[str, ...]:
    return tuple(f"{expression_text(expression)} AS {quoted_name(name)}" for name, expression in expressions)


def _check_step(old: StepShape, new: StepShape) -> None:
    if old.kind != new.kind:
        raise StatementError("CANNOT_REPLACE", f"A {old.kind} cannot be replaced by a {new.kind}")
    if old.keys != new.keys:
        message = "StreamGroupBy must have matching grouping expressions"
        if old.kind == PartitionBy.__name__:
            message = "StreamSelectKey must have matching expressions"
        raise StatementError("CANNOT_REPLACE", f"{message}: {_list(old.keys)} vs. {_list(new.keys)}")
    if set(old.reads) != set(new.reads):
        raise StatementError(
            "CANNOT_REPLACE",
            "StreamAggregate must have matching columns not part of aggregate. Values differ: "
            f"{_list(old.reads)} vs. {_list(new.reads)}. The replaced aggregation has to read the same columns; one "
            "that reads others needs a statement and a name of its own",
        )
    if old.calls != new.calls[: len(old.calls)]:
        raise StatementError(
            "CANNOT_REPLACE",
            "StreamAggregate must keep its aggregate functions, in their order; new ones come after them. Values "
            f"differ: {_list(old.calls)} vs. {_list(new.calls)}",
        )


def _read_columns(step: Aggregate) -> list[str]:
    """The columns that an aggregation and the filters before it read, in order."""
    refs = [ref for _, each in step.group_by for ref in column_refs(each)]
    names = [ref.name for ref in refs]
    for call in step.aggregates:
        arguments = [ref.name for each in call.arguments for ref in column_refs(each)]
        names += arguments or [ROWTIME]
    before: Step = step.input
    while isinstance(before, Filter):
        names += [ref.name for ref in column_refs(before.predicate)]
        before = before.input
    return [quoted_name(name) for name in dict.fromkeys(names)]


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"
