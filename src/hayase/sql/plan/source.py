"""Reading a source: its columns, those of the key, and the pseudo columns in one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from hayase.core.records import Headers, RecordMetadata, Windowed
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Consumed
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.serde.protocol import Serde
from hayase.sql.analysis.steps import ReadSource
from hayase.sql.catalog.sources import ROWOFFSET, ROWPARTITION, ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
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
    names = dict(step.names)
    if names.keys() <= {column.name for column in (*source.key, *source.value)}:
        mapper: Callable[[Any, Any], Any] = ColumnsOfRecords(source, names)
        stream = stream.map_values(mapper)
    else:
        stream = stream.process_values(partial(AddColumns, source, names))
    fields = tuple(column.name for column in source.key)
    stage = Stage(step.rows, fields, keys, stream, partitioning=partitioning_of(source))
    if not source.is_table:
        return stage
    if source.name in context.partitioned_tables:
        types = tuple(column.type for column in source.key)
        keys, stream = internal_key(source.key, source.window), stream.select_key(SameKey())
        stage = replace(stage, partitioning=internal_partitioning(types, source.window))
    kept: Materialized[Any, Any] = Materialized() if store is None else Materialized.as_(store)
    table = stream.to_table(kept.with_key_serde(keys).with_value_serde(_kept_rows(step)))
    return replace(stage, key_serde=keys, stream=None, table=table)


def _kept_rows(step: ReadSource) -> Serde[dict[str, Any]]:
    """The serde of a table's rows: columns of the value come last, where ALTER appends new ones."""
    values = {step.names.get(column.name) for column in step.source.value}
    columns = [Column(name, type_) for name, type_ in step.rows.columns.items()]
    return internal_value_serde(sorted(columns, key=lambda column: column.name in values))


class SameKey:
    """The key as it is, of rows that are partitioned again."""

    def __call__(self, key: Any, row: Any) -> Any:
        """The key."""
        return key


class ColumnsOfRecords:
    """Makes rows of keys and values: the columns of both.

    Args:
        source: the stream or table.
        names: of its columns in the rows; others are left out.
    """

    def __init__(self, source: DataSource, names: Mapping[str, str]) -> None:
        self._values = [(column.name, names[column.name]) for column in source.value if column.name in names]
        self._fields = [(column.name, names[column.name]) for column in source.key if column.name in names]
        self._bare = len(source.key) == 1

    def __call__(self, key: Any, value: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The row of a record; none for a record without a value."""
        if value is None:
            return None
        row = {name: value[column] for column, name in self._values}
        if isinstance(key, Windowed):
            key = key.key
        if self._bare:
            for _, name in self._fields:
                row[name] = key
        else:
            for column, name in self._fields:
                row[name] = None if key is None else key[column]
        return row


class AddColumns(FixedKeyProcessor[Any, Any, Any]):
    """Makes rows of records: the columns of key and value, those of headers, and the pseudo columns.

    Args:
        source: the stream or table.
        names: of its columns in the rows; others are left out.
    """

    def __init__(self, source: DataSource, names: Mapping[str, str]) -> None:
        self._columns = ColumnsOfRecords(source, names)
        self._headers = [
            (names[header.name], header.key, isinstance(header.type, ArrayType))
            for header in source.headers
            if header.name in names
        ]
        self._bounds = names.get(WINDOWSTART), names.get(WINDOWEND)
        self._time = names.get(ROWTIME)
        self._place = names.get(ROWPARTITION), names.get(ROWOFFSET)

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Send the record's row on; a null value stays one."""
        row = self._columns(record.key, record.value)
        if row is not None:
            self._add(row, record)
        self._context.forward(record.with_value(row))

    def _add(self, row: dict[str, Any], record: FixedKeyRecord[Any, Any]) -> None:
        for name, header, is_all in self._headers:
            row[name] = _all_headers(record.headers) if is_all else _last_header(record.headers, header)
        if self._time is not None:
            row[self._time] = record.timestamp_ms
        if self._place != (None, None):
            metadata = self._context.record_metadata() or _NO_METADATA
            _put(row, self._place, (metadata.partition, metadata.offset))
        if self._bounds != (None, None):
            _put(row, self._bounds, record.key.window if isinstance(record.key, Windowed) else (None, None))


def _put(row: dict[str, Any], names: tuple[str | None, ...], values: tuple[Any, ...]) -> None:
    row.update({name: value for name, value in zip(names, values, strict=True) if name is not None})


def _all_headers(headers: Headers) -> list[dict[str, Any]]:
    return [{"KEY": name, "VALUE": value} for name, value in headers]


def _last_header(headers: Headers, key: str | None) -> bytes | None:
    return next((value for name, value in reversed(headers) if name == key), None)
