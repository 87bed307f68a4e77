"""The end of a plan: the columns of the result, written to a topic or only kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Produced
from hayase.kernel.node.column_node import KEY, NULL
from hayase.serde.protocol import Schema
from hayase.sql.analysis.steps import Aggregate, Filter, Project, Step
from hayase.sql.catalog.sources import DataSource
from hayase.sql.expressions.rows import RowProjection
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.formats.row_columns import can_be_a_column, column_schema, key_column_schema
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import PlanContext, Stage, windowed_serde
from hayase.sql.plan.frame_expressions import FrameExpressions
from hayase.sql.plan.guarded import GuardedExpression
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.plan.stateless import Row
from hayase.sql.plan.timestamps import with_timestamps
from hayase.sql.plan.vectorize import fields_result, reads_of, vectorized
from hayase.topology.operators import VectorizedResult

RESULT_STORE = "Project"
"""Store of a table that no aggregation makes; the name does not change when a query is replaced."""


class ProjectRow:
    """The value columns of a result; a column whose expression fails is null.

    Args:
        projection: all columns, compiled as one function.
        columns: the same one by one, with their names.
    """

    def __init__(self, projection: RowProjection, columns: Sequence[tuple[str, GuardedExpression]]) -> None:
        self._names = [name for name, _ in columns]
        self._in_frames = FrameExpressions([expression for _, expression in columns])
        self._projection = projection
        self._row: Row | None = None
        projection.report = self._log

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_row": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._projection.report = self._log

    def __call__(self, key: Any, row: Row | None) -> Row | None:
        """The columns for a row; none for none."""
        if row is None:
            return None
        self._row = row
        return self._projection(row)

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The columns for the rows of a frame."""
        values, row_by_row = self._in_frames(frame)
        return fields_result(self._names, values, frame[NULL], row_by_row)

    def _log(self, name: str, error: Exception) -> None:
        log_failure("SELECT", name, error, self._row)


class RenameKey:
    """Keys of several columns under the names that they have in the result.

    Args:
        names: old and new name of each column.
        values: names of the columns of the rows.
    """

    def __init__(self, names: Sequence[tuple[str, str]], values: Sequence[str]) -> None:
        self._names = list(names)
        self._values = list(values)

    def __call__(self, key: Any, row: Any) -> Any:
        """The key and the unchanged row."""
        if isinstance(key, Windowed):
            return Windowed(self._renamed(key.key), key.window), row
        return self._renamed(key), row

    def _renamed(self, key: Any) -> Any:
        return None if key is None else {new: key[old] for old, new in self._names}

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The keys and the unchanged rows."""
        renamed = [pl.col(KEY).struct.field(old).alias(new) for old, new in self._names]
        key = pl.when(pl.col(KEY).is_not_null()).then(pl.struct(renamed)).alias(KEY)
        return VectorizedResult(frame.select(*self._values, NULL, key))


def _renamed_key(stage: Stage, source: DataSource) -> Callable[[Any, Any], Any]:
    """The function that gives keys the names of the columns of the result."""
    names = list(zip(stage.key_fields, (column.name for column in source.key), strict=True))
    schema = column_schema(source.value) if source.window is None else None
    key_schema = key_column_schema(source.key)
    rename = RenameKey(names, [column.name for column in source.value])
    return vectorized(rename, schema, [], f"rename {names} of {source.value}", key_schema=key_schema, pairs=True)


def project(step: Project, stage: Stage, context: PlanContext) -> Stage:
    """The columns of the result; those of a table are kept, unless they are made of a store of groups."""
    projection, expressions = context.compile_all(step.values, stage.rows.columns, "Select", "SELECT")
    names = [name for name, _ in step.values]
    mapper = vectorized(
        ProjectRow(projection, list(zip(names, expressions, strict=True))),
        _values_schema(names, expressions),
        expressions,
        f"select {[(name, each.definition) for name, each in zip(names, expressions, strict=True)]}",
        reads=reads_of(expressions),
    )
    fields = dict(zip(stage.rows.key, stage.key_fields, strict=True))
    selected = [fields.get(column) for _, column in step.key]
    key_fields = stage.key_fields if None in selected else tuple(field for field in selected if field is not None)
    if stage.table is not None:
        values = [Column(name, step.rows.columns[name]) for name, _ in step.values]
        kept: Materialized[Any, Any] | None = None
        if not is_of_groups(step.input):
            kept = Materialized.as_(RESULT_STORE).with_key_serde(stage.key_serde)
            kept = kept.with_value_serde(internal_value_serde(values))
        return Stage(step.rows, key_fields, stage.key_serde, table=stage.table.map_values(mapper, kept))
    return Stage(step.rows, key_fields, stage.key_serde, stage.of_stream.map_values(mapper))


def is_of_groups(step: Step) -> bool:
    """Whether the rows are those of an aggregation, filtered or not, whose store has them."""
    return isinstance(step, Aggregate) or (isinstance(step, Filter) and is_of_groups(step.input))


def _values_schema(names: Sequence[str], expressions: Sequence[GuardedExpression]) -> Schema | None:
    fields = tuple(zip(names, (each.dtype for each in expressions), strict=True))
    present = tuple((name, dtype) for name, dtype in fields if dtype is not None and can_be_a_column(name))
    if not present or len(present) < len(fields):
        return None
    packings = tuple((name, each.packed) for name, each in zip(names, expressions, strict=True) if each.packed)
    return Schema(present, python_type=dict, packings=packings)


@dataclass(frozen=True)
class Sink:
    """Where a result goes: a source of the catalog, whose topic it is written to."""

    source: DataSource


def write(stage: Stage, sink: Sink, context: PlanContext) -> None:
    """Write a result to the topic of its source."""
    source = sink.source
    stream = stage.table.to_stream() if stage.table is not None else stage.of_stream
    names = tuple(column.name for column in source.key)
    if source.timestamp is not None:
        stream = with_timestamps(stream, source, context.functions, context.settings)
    if len(names) > 1 and stage.key_fields != names:
        stream = stream.map(_renamed_key(stage, source))
    keys = key_serde(source.key_format, source.key, topic=source.topic, registry=context.registry)
    values = value_serde(source.value_format, source.value, topic=source.topic, registry=context.registry)
    stream.to(source.topic, Produced.with_(windowed_serde(keys, source.window), values))
