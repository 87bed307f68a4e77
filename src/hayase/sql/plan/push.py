"""From the plan of a push query to a topology that writes its rows, tombstones included, to one topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hayase.core.records import Windowed
from hayase.dsl.builder import StreamsBuilder
from hayase.dsl.options.options import Produced
from hayase.serde import Serdes
from hayase.serde.protocol import Serde
from hayase.sql.analysis.pruning import pruned
from hayase.sql.analysis.push import PushPlan
from hayase.sql.analysis.steps import Project
from hayase.sql.ast.expressions import ColumnRef
from hayase.sql.catalog.sources import WINDOWEND, WINDOWSTART
from hayase.sql.expressions.rows import RowProjection
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.build import build_step
from hayase.sql.plan.context import PlanContext, Stage
from hayase.sql.plan.copartitioning import tables_to_partition
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.types.sql_types import BOOLEAN
from hayase.topology.topology import Topology

ROWS_TOPIC = "rows"
"""Where the topology of a push query writes; it is no topic of the log."""
TOMBSTONE = "__tombstone"
"""The column that says whether a row deletes the row of its key."""


class ShownRows:
    """The rows of a result; a record without a value is a row of which only the key's columns are known.

    Args:
        projection: all columns, compiled.
        key: name of each column that is one of the key, with the field of the key; `None`: the key itself.
        bounds: names of columns that are the window's bounds, and whether it is the start.
        is_table: a record without a value deletes; of a stream, it is left out.
    """

    def __init__(
        self,
        projection: RowProjection,
        key: Sequence[tuple[str, str | None]],
        bounds: Sequence[tuple[str, bool]],
        *,
        is_table: bool,
    ) -> None:
        self._projection = projection
        self._key = list(key)
        self._bounds = list(bounds)
        self._is_table = is_table
        projection.report = _log

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._projection.report = _log

    def __call__(self, key: Any, row: dict[str, Any] | None) -> list[tuple[None, dict[str, Any]]]:
        """The record that is shown; none for a stream's record without a value."""
        if row is not None:
            return [(None, {**self._projection(row), TOMBSTONE: False})]
        return [(None, self._deleted(key))] if self._is_table else []

    def _deleted(self, key: Any) -> dict[str, Any]:
        shown: dict[str, Any] = {name: None for name, _ in self._projection.types}
        if isinstance(key, Windowed):
            for name, is_start in self._bounds:
                shown[name] = key.window[0] if is_start else key.window[1]
            key = key.key
        for name, field in self._key:
            shown[name] = key if field is None else key[field]
        return {**shown, TOMBSTONE: True}


def _log(name: str, error: Exception) -> None:
    log_failure("SELECT", name, error)


def build_push_topology(
    plan: PushPlan, functions: FunctionRegistry, settings: Mapping[str, object], registry: Any = None
) -> Topology:
    """The topology of a push query; it writes to ROWS_TOPIC, by `rows_serde_of`.

    Raises:
        StatementError: an expression of the plan cannot be computed.
    """
    root = Project(plan.step.rows, plan.step, (), plan.items)
    context = PlanContext(StreamsBuilder(), functions, settings, registry, frozenset(tables_to_partition(root)))
    stage = build_step(pruned(root).input, context)
    projection, _ = context.compile_all(plan.items, stage.rows.columns, "Select", "SELECT")
    shown = ShownRows(
        projection,
        _key_columns(plan, stage),
        [(name, ref == WINDOWSTART) for name, ref in _refs(plan) if ref in (WINDOWSTART, WINDOWEND)],
        is_table=stage.table is not None,
    )
    stream = stage.table.to_stream() if stage.table is not None else stage.of_stream
    keys: Serde[Any] = Serdes.bytes()  # all are null
    stream.flat_map(shown).to(ROWS_TOPIC, Produced.with_(keys, rows_serde_of(plan)))
    return context.builder.build({"topology.optimization": "all"})


def rows_serde_of(plan: PushPlan) -> Serde[dict[str, Any]]:
    """The serde of the rows that the topology writes: the columns, and TOMBSTONE."""
    return internal_value_serde([*plan.columns, Column(TOMBSTONE, BOOLEAN)])


def _refs(plan: PushPlan) -> list[tuple[str, str]]:
    """Columns of the result that are columns of the rows before."""
    return [(name, each.name) for name, each in plan.items if isinstance(each, ColumnRef)]


def _key_columns(plan: PushPlan, stage: Stage) -> list[tuple[str, str | None]]:
    fields = dict(zip(stage.rows.key, stage.key_fields, strict=True))
    bare = len(fields) == 1
    return [(name, None if bare else fields[column]) for name, column in _refs(plan) if column in fields]
