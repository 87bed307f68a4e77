"""Event times from columns: at sources by an extractor, at sinks by setting the record's timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hayase.core.records import Windowed
from hayase.processor.api import FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord
from hayase.processor.timestamps import ConsumedRecord, TimestampExtractor, callable_timestamp, field_timestamp
from hayase.sql.catalog.sources import DataSource, TimestampColumn
from hayase.sql.errors import FunctionError, StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.functions.registry import FunctionRegistry
from hayase.sql.plan.processing_log import log_failure
from hayase.sql.types.sql_types import BIGINT, STRING, TIMESTAMP, SqlType, quoted_name

THROW_ON_INVALID = "ksql.timestamp.throw.on.invalid"


def check_timestamp_column(timestamp: TimestampColumn | None, columns: Mapping[str, SqlType]) -> None:
    """The column of TIMESTAMP= has to be there, and to be a time.

    Raises:
        StatementError: it is not.
    """
    if timestamp is None:
        return
    if timestamp.name not in columns:
        raise StatementError(
            "INVALID_TIMESTAMP_COLUMN",
            f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{timestamp.name}'",
        )
    type_ = columns[timestamp.name]
    if timestamp.format is not None:
        if type_ != STRING:
            raise StatementError(
                "INVALID_TIMESTAMP_COLUMN",
                "A timestamp_format can only be specified if the timestamp column is of type String",
            )
    elif type_ not in (BIGINT, TIMESTAMP):
        raise StatementError(
            "INVALID_TIMESTAMP_COLUMN",
            f"Timestamp column, {quoted_name(timestamp.name)}, should be LONG(INT64), TIMESTAMP, or a String with a "
            "timestamp_format specified",
        )


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


class SetTimestamp(FixedKeyProcessor[Any, Any, Any]):
    """Gives each record the time of a column of its result; what has none there is dropped.

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

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        """See `FixedKeyProcessor.init`."""
        self._context = context

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        """Send the record on with its new time; a null value keeps the one it has."""
        if record.value is None:
            self._context.forward(record)
            return
        try:
            time_ms = self._time(self._column(record))
            if time_ms < 0:
                raise FunctionError("INVALID_TIMESTAMP", f"{time_ms} is before 1970")
        except Exception as error:  # a value may have any form
            if self._throws:
                raise
            log_failure("sink", f"the timestamp column {self._name}", error)
            return
        self._context.forward(record.with_timestamp(time_ms))

    def _column(self, record: FixedKeyRecord[Any, Any]) -> Any:
        if self._name not in self._key:
            return record.value[self._name]
        key = record.key.key if isinstance(record.key, Windowed) else record.key
        return key if len(self._key) == 1 else key[self._name]
