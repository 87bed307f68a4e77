"""The end of a plan: the columns of the result, written to a topic or only kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hayase.core.records import Windowed
from hayase.dsl.options.options import Produced
from hayase.sql.analysis.steps import Project
from hayase.sql.catalog.sources import DataSource
from hayase.sql.expressions.rows import RowProjection
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import PlanContext, Stage, windowed_serde
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.plan.stateless import Row
from hayase.sql.plan.timestamps import SetTimestamp, throws_on_invalid


class ProjectRow:
    """The value columns of a result; a column whose expression fails is null.

    Args:
        projection: all columns, compiled.
    """

    def __init__(self, projection: RowProjection) -> None:
        self._projection = projection
        self._row: Row | None = None
        projection.report = self._log

    def __getstate__(self) -> dict[str, Any]:
        return {"_projection": self._projection, "_row": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._projection.report = self._log

    def __call__(self, row: Row | None) -> Row | None:
        """The columns for a row; none for none."""
        if row is None:
            return None
        self._row = row
        return self._projection(row)

    def _log(self, name: str, error: Exception) -> None:
        log_failure("SELECT", name, error, self._row)


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
    """The columns of the result."""
    mapper = ProjectRow(context.compile_all(step.values, stage.rows.columns, "Select"))
    fields = dict(zip(stage.rows.key, stage.key_fields, strict=True))
    selected = [fields.get(column) for _, column in step.key]
    key_fields = stage.key_fields if None in selected else tuple(field for field in selected if field is not None)
    if stage.table is not None:
        return Stage(step.rows, key_fields, stage.key_serde, table=stage.table.map_values(mapper))
    return Stage(step.rows, key_fields, stage.key_serde, stage.of_stream.map_values(mapper))


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
