"""What CREATE OR REPLACE … AS SELECT may change of a query, so that its state goes on to be right."""

from __future__ import annotations

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
from hayase.sql.catalog.sources import ROWTIME
from hayase.sql.errors import StatementError
from hayase.sql.statements.results import PersistentQuery
from hayase.sql.types.sql_types import quoted_name

_NAMES = {
    JoinStreams: "StreamStreamJoin",
    JoinStreamTable: "StreamTableJoin",
    JoinTables: "TableTableJoin",
    JoinForeignKey: "ForeignKeyTableTableJoin",
    FlatMap: "StreamFlatMap",
}


def check_query_upgrade(old: PersistentQuery, new: PersistentQuery) -> None:
    """Stateless steps may change, and what an aggregation reads must stay.

    Raises:
        StatementError: another step is there, or changed.
    """
    before, after = _with_state(old.plan), _with_state(new.plan)
    for step in (*before, *after):
        name = _unsupported(step)
        if name is not None:
            raise StatementError("CANNOT_REPLACE", f"Upgrades not yet supported for {name}")
    if len(before) != len(after):
        raise StatementError(
            "CANNOT_REPLACE",
            f"Query {old.id} cannot be replaced: its steps with a key or state of their own were "
            f"{[type(step).__name__ for step in before]}, now they are {[type(step).__name__ for step in after]}",
        )
    for one, other in zip(before, after, strict=True):
        _check_step(one, other)


def _with_state(step: Step) -> list[Step]:
    found = [each for before in step.inputs for each in _with_state(before)]
    kinds = (Aggregate, PartitionBy, FlatMap, JoinStreams, JoinStreamTable, JoinTables, JoinForeignKey)
    return [*found, step] if isinstance(step, kinds) else found


def _unsupported(step: Step) -> str | None:
    if isinstance(step, Aggregate):
        if step.window is not None:
            return "StreamWindowedAggregate"
        return "TableAggregate" if step.input.rows.is_table else None
    return _NAMES.get(type(step))


def _check_step(old: Step, new: Step) -> None:
    if isinstance(old, PartitionBy) and isinstance(new, PartitionBy):
        if old.expressions != new.expressions:
            raise StatementError("CANNOT_REPLACE", "StreamSelectKey must have matching expressions")
        return
    if isinstance(old, Aggregate) and isinstance(new, Aggregate):
        _check_aggregate(old, new)
        return
    raise StatementError("CANNOT_REPLACE", f"A {type(old).__name__} cannot be replaced by a {type(new).__name__}")


def _check_aggregate(old: Aggregate, new: Aggregate) -> None:
    if old.group_by != new.group_by:
        raise StatementError("CANNOT_REPLACE", "StreamGroupBy must have matching grouping expressions")
    before, after = _read_columns(old), _read_columns(new)
    if not set(after) <= set(before) or (set(before) != set(after)):
        raise StatementError(
            "CANNOT_REPLACE",
            "StreamAggregate must have matching columns not part of aggregate. Values differ: "
            f"[{', '.join(before)}] vs. [{', '.join(after)}]",
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
