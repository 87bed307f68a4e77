"""Reading a source: its columns, those of the key, and the pseudo columns in one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hayase.core.records import Headers, RecordMetadata, Windowed
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Consumed
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.sql.analysis.steps import ReadSource
from hayase.sql.catalog.sources import ROWOFFSET, ROWPARTITION, ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import PlanContext, Stage, internal_key, windowed_serde
from hayase.sql.plan.copartitioning import internal_partitioning, partitioning_of
from hayase.sql.plan.timestamps import extractor_of
from hayase.sql.types.sql_types import ArrayType

_NO_METADATA = RecordMetadata("", -1, -1)


def read_source(step: ReadSource, context: PlanContext, store: str | None = None) -> Stage:
    """The stream or table of a source; `store` is the name of the store that keeps a table's rows."""
    source = step.source
    keys = windowed_serde(
        key_serde(source.key_format, source.key, topic=source.topic, registry=context.registry), source.window
    )
    values = value_serde(source.value_format, source.value, topic=source.topic, registry=context.registry)
    consumed = Consumed.with_(keys, values, extractor_of(source, context.functions, context.settings))
    stream = context.builder.stream(source.topic, consumed)
    stream = stream.process_values(partial(AddColumns, source, dict(step.names)))
    fields = tuple(column.name for column in source.key)
    stage = Stage(step.rows, fields, keys, stream, partitioning=partitioning_of(source))
    if not source.is_table:
        return stage
    if source.name in context.partitioned_tables:
        types = tuple(column.type for column in source.key)
        keys, stream = internal_key(source.key, source.window), stream.select_key(SameKey())
        stage = replace(stage, partitioning=internal_partitioning(types, source.window))
    kept: Materialized[Any, Any] = Materialized() if store is None else Materialized.as_(store)
    table = stream.to_table(kept.with_key_serde(keys).with_value_serde(stage.value_serde))
    return replace(stage, key_serde=keys, stream=None, table=table)


class SameKey:
    """The key as it is, of rows that are partitioned again."""

    def __call__(self, key: Any, row: Any) -> Any:
        """The key."""
        return key


class AddColumns(FixedKeyProcessor[Any, Any, Any]):
    """Makes rows of a source's records: all columns of key, value and headers, and the pseudo columns.

    Args:
        source: the stream or table.
        names: of its columns in the rows.
    """

    def __init__(self, source: DataSource, names: Mapping[str, str]) -> None:
        self._values = [(column.name, names[column.name]) for column in source.value]
        self._keys = [(column.name, names[column.name]) for column in source.key]
        self._headers = [
            (names[header.name], header.key, isinstance(header.type, ArrayType)) for header in source.headers
        ]
        self._names = names
        self._windowed = source.window is not None
        self._skips_null_keys = source.is_table

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Send the record's row on; a null value stays one."""
        if record.key is None and self._skips_null_keys:
            return
        row = None if record.value is None else self._row(record)
        self._context.forward(record.with_value(row))

    def _row(self, record: FixedKeyRecord[Any, Any]) -> dict[str, Any]:
        names, value = self._names, record.value
        row = {name: value[column] for column, name in self._values}
        key = record.key
        if self._windowed:
            window = key.window if isinstance(key, Windowed) else (None, None)
            row[names[WINDOWSTART]], row[names[WINDOWEND]] = window
            key = key.key if isinstance(key, Windowed) else None
        if len(self._keys) == 1:
            row[self._keys[0][1]] = key
        else:
            for column, name in self._keys:
                row[name] = None if key is None else key[column]
        for name, header, is_all in self._headers:
            row[name] = _all_headers(record.headers) if is_all else _last_header(record.headers, header)
        metadata = self._context.record_metadata() or _NO_METADATA
        row[names[ROWTIME]] = record.timestamp_ms
        row[names[ROWPARTITION]] = metadata.partition
        row[names[ROWOFFSET]] = metadata.offset
        return row


def _all_headers(headers: Headers) -> list[dict[str, Any]]:
    return [{"KEY": name, "VALUE": value} for name, value in headers]


def _last_header(headers: Headers, key: str | None) -> bytes | None:
    return next((value for name, value in reversed(headers) if name == key), None)
