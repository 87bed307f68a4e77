"""The end of a plan: the columns of the result, written to a topic or only kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hayase.core.records import Windowed
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Produced
from hayase.sql.analysis.steps import Aggregate, Filter, Project, Step
from hayase.sql.catalog.sources import DataSource
from hayase.sql.expressions.rows import RowProjection
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import PlanContext, Stage, windowed_serde
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.plan.stateless import Row
from hayase.sql.plan.timestamps import SetTimestamp, throws_on_invalid

RESULT_STORE = "Project"
"""Store of a table that no aggregation makes; the name does not change when a query is replaced."""


class ProjectRow:
    """The value columns of a result; a column whose expression fails is null.

    Args:
        projection: all columns, compiled.
    """

    def __init__(self, projection: RowProjection) -> None:
        self._projection = projection
        projection.report = _log

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._projection.report = _log

    def __call__(self, row: Row | None) -> Row | None:
        """The columns for a row; none for none."""
        return None if row is None else self._projection(row)


def _log(name: str, error: Exception) -> None:
    log_failure("SELECT", name, error)


class RenameKey:
    """Keys of several columns under the names that they have in the result.

    Args:
        names: old and new name of each column.
    """

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self._names = list(names)

    def __call__(self, key: Any, row: Any) -> Any:
        """The key and the unchanged row."""
        if isinstance(key, Windowed):
            return Windowed(self._renamed(key.key), key.window), row
        return self._renamed(key), row

    def _renamed(self, key: Any) -> Any:
        return None if key is None else {new: key[old] for old, new in self._names}


def project(step: Project, stage: Stage, context: PlanContext) -> Stage:
    """The columns of the result; those of a table are kept, unless they are made of a store of groups."""
    mapper = ProjectRow(context.compile_all(step.values, stage.rows.columns, "Select"))
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
        throws = throws_on_invalid(context.settings)
        stream = stream.process_values(partial(SetTimestamp, source.timestamp, source.key, context.functions, throws))
    if len(names) > 1 and stage.key_fields != names:
        stream = stream.map(RenameKey(list(zip(stage.key_fields, names, strict=True))))
    keys = key_serde(source.key_format, source.key, topic=source.topic, registry=context.registry)
    values = value_serde(source.value_format, source.value, topic=source.topic, registry=context.registry)
    stream.to(source.topic, Produced.with_(windowed_serde(keys, source.window), values))
