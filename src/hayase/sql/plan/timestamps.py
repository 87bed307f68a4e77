"""Event times from columns: at sources by an extractor, at sinks by setting the record's timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from hayase.core.records import Windowed
from hayase.dsl.kstream import KStream
from hayase.kernel.node.column_node import KEY, NULL, TS
from hayase.processor.timestamps import ConsumedRecord, TimestampExtractor, callable_timestamp, field_timestamp
from hayase.sql.catalog.sources import DataSource, TimestampColumn
from hayase.sql.errors import FunctionError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.row_columns import bare_of
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.plan.vectorize import bare_result
from hayase.sql.types.sql_types import STRING
from hayase.topology.operators import SetTimestamp, VectorizedFunction, VectorizedResult

THROW_ON_INVALID = "ksql.timestamp.throw.on.invalid"


class ColumnTime:
    """The time that a column gives, in milliseconds.

    Args:
        timestamp: the column.
        functions: where the function is that reads times from text.
    """

    def __init__(self, timestamp: TimestampColumn, functions: FunctionRegistry) -> None:
        self._format = timestamp.format
        self._parse = functions.scalar("STRINGTOTIMESTAMP", [STRING, STRING]).function if self._format else None

    def __call__(self, value: object) -> int:
        """The time of a value; raises what parsing raises, and FunctionError for a null."""
        if value is None:
            raise FunctionError("NULL_TIMESTAMP", "the timestamp column is null")
        if self._parse is not None:
            return int(self._parse(str(value), self._format))
        assert isinstance(value, int)
        return value


class ColumnExtractor:
    """A timestamp extractor that takes the time from a column of the key or the value.

    Args:
        source: with the timestamp column.
        functions: all functions.
        throws: a bad time stops the query; else its record is skipped.
    """

    def __init__(self, source: DataSource, functions: FunctionRegistry, throws: bool) -> None:
        assert source.timestamp is not None
        self._name = source.timestamp.name
        self._key = [column.name for column in source.key]
        self._time = ColumnTime(source.timestamp, functions)
        self._throws = throws

    def __call__(self, record: ConsumedRecord, partition_time_ms: int) -> int:
        """The time; -1: the record is skipped."""
        try:
            return self._time(self._column(record))
        except Exception as error:  # a value may have any form
            if self._throws:
                raise FunctionError(
                    "INVALID_TIMESTAMP", f"Fatal user code error in TimestampExtractor callback for record: {error}"
                ) from error
            log_failure("source", f"the timestamp column {self._name}", error)
            return -1

    def _column(self, record: ConsumedRecord) -> Any:
        if self._name not in self._key:
            return None if record.value is None else record.value[self._name]
        key = record.key.key if isinstance(record.key, Windowed) else record.key
        return key if len(self._key) == 1 or key is None else key[self._name]


def throws_on_invalid(settings: Mapping[str, object]) -> bool:
    """Whether a bad time stops the query."""
    return str(settings.get(THROW_ON_INVALID, False)).lower() == "true"


def extractor_of(
    source: DataSource, functions: FunctionRegistry, settings: Mapping[str, object]
) -> TimestampExtractor | None:
    """The timestamp extractor of a source; `None`: the record's timestamp."""
    if source.timestamp is None:
        return None
    throws, name = throws_on_invalid(settings), source.timestamp.name
    in_value = any(column.name == name for column in source.value)
    if in_value and source.timestamp.format is None and not throws and "." not in name:
        return field_timestamp(name, on_invalid="skip")
    extractor = ColumnExtractor(source, functions, throws)
    return callable_timestamp(extractor, on_invalid="skip")


class RecordTime:
    """The time of a column of a result; null where there is none, so that the record is dropped.

    Args:
        timestamp: the column.
        key: the columns of the result's key.
        functions: all functions.
        throws: a bad time stops the query.
    """

    def __init__(
        self, timestamp: TimestampColumn, key: tuple[Column, ...], functions: FunctionRegistry, throws: bool
    ) -> None:
        self._name = timestamp.name
        self._key = [column.name for column in key]
        self._time = ColumnTime(timestamp, functions)
        self._throws = throws

    def __call__(self, key: Any, row: Any, timestamp_ms: int) -> int | None:
        """The time of a record; a null value keeps the one it has."""
        return timestamp_ms if row is None else self._checked(self._column(key, row))

    def columns(self, frame: pl.DataFrame) -> VectorizedResult:
        """The times of a frame's records."""
        times = self._times(frame)
        times = pl.select(pl.when(frame[NULL]).then(frame[TS]).otherwise(times)).to_series()
        return bare_result(times)

    def _times(self, frame: pl.DataFrame) -> pl.Series:
        values = self._values(frame)
        if values.dtype.is_integer() and bool((values >= 0).fill_null(value=False).all()):
            return values.cast(pl.Int64)
        present = zip(values.to_list(), frame[NULL].to_list(), strict=True)
        return pl.Series([None if gone else self._checked(value) for value, gone in present], dtype=pl.Int64)

    def _checked(self, value: Any) -> int | None:
        try:
            time_ms = self._time(value)
            if time_ms < 0:
                raise FunctionError("INVALID_TIMESTAMP", f"{time_ms} is before 1970")
        except Exception as error:  # a value may have any form
            if self._throws:
                raise
            log_failure("sink", f"the timestamp column {self._name}", error)
            return None
        return time_ms

    def _column(self, key: Any, row: Any) -> Any:
        if self._name not in self._key:
            return row[self._name]
        key = key.key if isinstance(key, Windowed) else key
        return key if len(self._key) == 1 else key[self._name]

    def _values(self, frame: pl.DataFrame) -> pl.Series:
        if self._name not in self._key:
            return frame[self._name]
        return frame[KEY] if len(self._key) == 1 else frame[KEY].struct.field(self._name)


def with_timestamps(
    stream: KStream[Any, Any], sink: DataSource, functions: FunctionRegistry, settings: Mapping[str, object]
) -> KStream[Any, Any]:
    """The records of a result with the time of the column that its sink names."""
    assert sink.timestamp is not None
    throws = throws_on_invalid(settings)
    time = RecordTime(sink.timestamp, sink.key, functions, throws)
    reads = frozenset({sink.timestamp.name} - {column.name for column in sink.key})
    mapper = VectorizedFunction(
        time,
        time.columns,
        bare_of(pl.Int64()),
        reads=reads,
        pure=not throws,
        definition=f"time {sink.timestamp}",
        timed=True,
    )
    state = stream._state
    name = state.graph.names.name_or_next(None, "KSTREAM-PROCESSVALUES-")
    state.graph.processor(name, (state.node,), SetTimestamp(mapper))
    return KStream(replace(state, node=name))
