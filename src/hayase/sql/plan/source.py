"""Reading a source: its columns, those of the key, and the pseudo columns in one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from hayase.core.records import Headers, RecordMetadata, Windowed
from hayase.dsl.kstream import KStream
from hayase.dsl.options.materialized import Materialized
from hayase.dsl.options.options import Consumed
from hayase.kernel.node.column_node import KEY, NULL, TS, WINDOW_END, WINDOW_START
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.serde.protocol import BARE_FIELD, Schema, Serde
from hayase.sql.analysis.steps import ReadSource
from hayase.sql.catalog.sources import ROWOFFSET, ROWPARTITION, ROWTIME, WINDOWEND, WINDOWSTART, DataSource
from hayase.sql.formats.columns import Column
from hayase.sql.formats.internal import internal_value_serde
from hayase.sql.formats.row_columns import key_column_schema
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.plan.context import PlanContext, Stage, internal_key, rows_schema, windowed_serde
from hayase.sql.plan.copartitioning import internal_partitioning, partitioning_of
from hayase.sql.plan.timestamps import extractor_of
from hayase.sql.plan.vectorize import vectorized
from hayase.sql.types.sql_types import ArrayType
from hayase.topology.operators import VectorizedFunction, VectorizedResult

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
    stream = _with_rows(stream, step)
    fields = tuple(column.name for column in source.key)
    stage = Stage(step.rows, fields, keys, stream, partitioning=partitioning_of(source))
    if not source.is_table:
        return stage
    if source.name in context.partitioned_tables:
        types = tuple(column.type for column in source.key)
        keys, stream = internal_key(source.key, source.window), stream.select_key(same_key(stage))
        stage = replace(stage, partitioning=internal_partitioning(types, source.window))
    kept: Materialized[Any, Any] = Materialized() if store is None else Materialized.as_(store)
    table = stream.to_table(kept.with_key_serde(keys).with_value_serde(_kept_rows(step)))
    return replace(stage, key_serde=keys, stream=None, table=table)


def _with_rows(stream: KStream[Any, Any], step: ReadSource) -> KStream[Any, Any]:
    """The stream with rows as values; only headers, partition and offset take a processor."""
    source, names = step.source, dict(step.names)
    of_records = {column.name for column in (*source.key, *source.value)}
    if not names.keys() <= of_records | {ROWTIME, WINDOWSTART, WINDOWEND}:
        return stream.process_values(partial(AddColumns, source, names))
    columns = ColumnsOfRecords(source, names)
    schema = rows_schema(step.rows) if set(step.rows.columns) == set(names.values()) else None
    reads = frozenset(column.name for column in source.value if column.name in names)
    definition = f"read {names} of {source.key} {source.value}"
    if schema is not None:
        timed = VectorizedFunction(
            columns.timed, columns.columns, schema, reads=reads, pure=True, definition=definition, timed=True
        )
        return stream.map_values(timed)
    if names.keys() <= of_records:
        return stream.map_values(columns)
    return stream.process_values(partial(AddColumns, source, names))


def _kept_rows(step: ReadSource) -> Serde[dict[str, Any]]:
    """The serde of a table's rows: columns of the value come last, where ALTER appends new ones."""
    values = {step.names.get(column.name) for column in step.source.value}
    columns = [Column(name, type_) for name, type_ in step.rows.columns.items()]
    return internal_value_serde(sorted(columns, key=lambda column: column.name in values))


class SameKey:
    """The key as it is, of rows that are partitioned again; `bare`: it is one column, which may be a STRUCT."""

    def __init__(self, *, bare: bool) -> None:
        self._bare = bare

    def __call__(self, key: Any, row: Any) -> Any:
        """The key."""
        return key

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The keys."""
        keys = frame[KEY]
        if self._bare:
            return VectorizedResult(keys.alias(BARE_FIELD).to_frame())
        return VectorizedResult(keys.struct.unnest().with_columns(keys.is_null().alias(NULL)))


def same_key(stage: Stage) -> Callable[[Any, Any], Any]:
    """The keys of a stage as they are."""
    schema = key_column_schema(stage.rows.key_columns) if stage.rows.window is None else None
    if schema is not None and not schema.bare:
        schema = Schema(tuple(zip(stage.key_fields, (dtype for _, dtype in schema.fields), strict=True)), False, dict)
    same = SameKey(bare=len(stage.rows.key) <= 1)
    return vectorized(same, schema, [], "same key", reads=frozenset())


class ColumnsOfRecords:
    """Makes rows of keys and values: the columns of both.

    Args:
        source: the stream or table.
        names: of its columns, the time and the bounds of windows in the rows; others are left out.
    """

    def __init__(self, source: DataSource, names: Mapping[str, str]) -> None:
        self._time = names.get(ROWTIME)
        self._bounds = names.get(WINDOWSTART), names.get(WINDOWEND)
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

    def timed(self, key: Any, value: Mapping[str, Any] | None, timestamp_ms: int) -> dict[str, Any] | None:
        """The row of a record, with the time and the bounds of its window."""
        row = self(key, value)
        if row is not None:
            if self._time is not None:
                row[self._time] = timestamp_ms
            if self._bounds != (None, None):
                put(row, self._bounds, key.window if isinstance(key, Windowed) else (None, None))
        return row

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The rows of records."""
        key = pl.col(KEY)
        selected = [pl.col(column).alias(name) for column, name in self._values]
        selected += [(key if self._bare else key.struct.field(column)).alias(name) for column, name in self._fields]
        if self._time is not None:
            selected.append(pl.col(TS).alias(self._time))
        for name, bound in zip(self._bounds, (WINDOW_START, WINDOW_END), strict=True):
            if name is not None:
                selected.append((pl.col(bound) if bound in frame.columns else pl.lit(None, pl.Int64)).alias(name))
        if frame[NULL].any():
            selected = [pl.when(~pl.col(NULL)).then(each).alias(each.meta.output_name()) for each in selected]
        return VectorizedResult(frame.select(pl.col(NULL), *selected))


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
            put(row, self._place, (metadata.partition, metadata.offset))
        if self._bounds != (None, None):
            put(row, self._bounds, record.key.window if isinstance(record.key, Windowed) else (None, None))


def put(row: dict[str, Any], names: tuple[str | None, ...], values: tuple[Any, ...]) -> None:
    """Add the values that have a name to a row."""
    row.update({name: value for name, value in zip(names, values, strict=True) if name is not None})


def _all_headers(headers: Headers) -> list[dict[str, Any]]:
    return [{"KEY": name, "VALUE": value} for name, value in headers]


def _last_header(headers: Headers, key: str | None) -> bytes | None:
    return next((value for name, value in reversed(headers) if name == key), None)
