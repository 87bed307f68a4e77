"""The formats PROTOBUF and PROTOBUF_NOSR: a message of the columns, with and without Confluent's wire format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from hayase.serde.protobuf_schema import ProtobufSchema, write_indexes
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.protobuf_values import MessageForm
from hayase.serde.protocol import Side
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FULL_SCHEMA_NAME, NULLABLE_REPRESENTATION, SCHEMA_ID, FormatInfo
from hayase.sql.formats.payload import PayloadCodec, fields_of
from hayase.sql.formats.protobuf_columns import DEFAULT_NAME, BuiltSchema, compiled_schema, protobuf_schema
from hayase.sql.formats.record_values import SCALARS, Reader, record_reader
from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import fitted

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)
_Write = Callable[[Any], Any]


def schema_of(format_: FormatInfo, columns: Sequence[Column]) -> BuiltSchema:
    """The schema that a format writes columns by; raises ConfigError `INVALID_SCHEMA`."""
    name = format_.property(FULL_SCHEMA_NAME) or DEFAULT_NAME
    return protobuf_schema(columns, name, format_.property(NULLABLE_REPRESENTATION))


class PlainProtobufPayload(PayloadCodec):
    """Messages of the columns without a head.

    Args:
        format_: with the representation of null.
        columns: names and types.
    """

    def __init__(self, format_: FormatInfo, columns: Sequence[Column]) -> None:
        built = schema_of(format_, columns)
        self._form = MessageForm(ProtobufSchema(built.files).message(built.message)[1])
        self._read = _record_reader(columns)
        self._write = _record_writer(fields_of(columns))

    def write(self, value: Any) -> bytes:
        """The message's bytes; null columns are not set."""
        return self._form.serialize(self._form.message(self._write(value)))

    def read(self, data: bytes) -> Any:
        """The columns of the message."""
        return self._read(self._form.value(self._form.parse(b"\0" + data)))


class ProtobufPayload(PayloadCodec):
    """Messages in Confluent's wire format, written by the columns' schema or by one of the registry.

    Args:
        format_: with the name of the message, the representation of null, or the id of the schema to write by.
        columns: names and types.
        side: keys or values.
        topic: its name makes the subject.
        registry: where schemas are.
    """

    def __init__(
        self, format_: FormatInfo, columns: Sequence[Column], *, side: Side, topic: str, registry: SchemaRegistry
    ) -> None:
        self._read = _record_reader(columns)
        self._write = _record_writer(fields_of(columns))
        self._reading = KnownProtobuf(None, registry)
        schema_id = format_.property(SCHEMA_ID)
        self._schema_id = None if schema_id is None else int(schema_id)
        self._message = format_.property(FULL_SCHEMA_NAME)
        text = schema_of(format_, columns).text if schema_id is None else None
        message = self._message if text is not None else None
        self._writing: KnownProtobuf = KnownProtobuf(text, registry, message=message).for_topic(topic, side, {})
        self._by: tuple[bytes, MessageForm] | None = None

    def write(self, value: Any) -> bytes:
        """The schema's id, the message's indexes and its bytes; raises SerializationError, SchemaRegistryError."""
        if self._by is None:
            self._by = self._writing.by_own() if self._schema_id is None else self._by_id(self._schema_id)
        head, form = self._by
        return head + self._writing.payload(self._write(value), form)

    def _by_id(self, schema_id: int) -> tuple[bytes, MessageForm]:
        indexes, form = self._writing.by_id(schema_id, self._message)
        return self._writing.head(schema_id) + write_indexes(indexes), form

    def read(self, data: bytes) -> Any:
        """What any message of the registry has, as the columns; raises SerializationError, SchemaRegistryError."""
        return self._read(self._reading.from_bytes(data))


class KnownProtobuf(ProtobufSerde[Any]):
    """Protobuf that compiles neither what was made of columns nor Google's files that its package lacks."""

    def _compiled(self, schema: RegistrySchema) -> ProtobufSchema:
        return compiled_schema(schema, lambda each: self.registry.version(each.subject, each.version).schema)

    def by_own(self) -> tuple[bytes, MessageForm]:
        """Head and message of what is written by the serde's own schema; raises SchemaRegistryError."""
        return self._writing()

    def by_id(self, schema_id: int, name: str | None) -> tuple[tuple[int, ...], MessageForm]:
        """Indexes and form of a message of a schema of the registry; `None`: its first."""
        schema = self.written_schema(schema_id)
        indexes, _ = self._file(schema).message(name)
        return indexes, self._form_of(schema, indexes)


def _record_reader(columns: Sequence[Column]) -> Reader:
    return record_reader(fields_of(columns), _READERS)


def _decimal(precision: int, scale: int, value: Any) -> Decimal:
    if not isinstance(value, Mapping) or not isinstance(value.get("value"), bytes):
        raise ValueError(f"{value!r:.80} is not a decimal number")
    number = Decimal(int.from_bytes(value["value"], "big", signed=True))
    sign, digits, _ = number.as_tuple()
    return fitted(Decimal((sign, digits, -int(value.get("scale") or 0))), precision, scale)


def _date(value: Any) -> int:
    if isinstance(value, Mapping):
        return dt.date(value["year"], value["month"], value["day"]).toordinal() - _EPOCH_DAY
    return int(SCALARS[sql.DateType](value))


def _time(value: Any) -> int:
    if isinstance(value, Mapping):
        seconds = (value["hours"] * 60 + value["minutes"]) * 60 + value["seconds"]
        return int(seconds * 1000 + value["nanos"] // 1_000_000)
    return int(SCALARS[sql.TimeType](value))


def _timestamp(value: Any) -> int:
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // _MILLISECOND
    return int(SCALARS[sql.TimestampType](value))


_READERS: Mapping[type[sql.SqlType], Callable[..., Any]] = {
    **SCALARS,
    sql.DecimalType: _decimal,
    sql.DateType: _date,
    sql.TimeType: _time,
    sql.TimestampType: _timestamp,
}


def _writer(type_: sql.SqlType) -> _Write | None:
    """What brings values, which are not None, into the form that MessageForm takes; `None`: they are in it."""
    match type_:
        case sql.ArrayType(item):
            write = _writer(item)
            return None if write is None else partial(_each, write)
        case sql.MapType(_, value):
            write = _writer(value)
            return None if write is None else partial(_each_value, write)
        case sql.StructType(fields):
            return _record_writer(fields)
        case sql.DecimalType(precision, scale):
            return partial(_write_decimal, precision, scale)
    return _WRITERS.get(type(type_))


def _record_writer(fields: tuple[tuple[str, sql.SqlType], ...]) -> _Write:
    return partial(_write_record, [(name, _writer(type_)) for name, type_ in fields])


def _write_record(writers: list[tuple[str, _Write | None]], value: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, write in writers:
        item = value[name]
        if item is not None:
            fields[name] = item if write is None else write(item)
    return fields


def _each(write: _Write, value: list[Any]) -> list[Any]:
    return [write(item) for item in value]


def _each_value(write: _Write, value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: write(item) for key, item in value.items()}


def _write_decimal(precision: int, scale: int, value: Decimal) -> dict[str, Any]:
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8) + 1
    return {"value": unscaled.to_bytes(size, "big", signed=True), "precision": precision, "scale": scale}


def _write_date(value: int) -> dict[str, int]:
    date = dt.date.fromordinal(value + _EPOCH_DAY)
    return {"year": date.year, "month": date.month, "day": date.day}


def _write_time(value: int) -> dict[str, int]:
    seconds, milliseconds = divmod(value, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return {"hours": hours, "minutes": minutes, "seconds": seconds, "nanos": milliseconds * 1_000_000}


def _write_timestamp(value: int) -> dt.datetime:
    return _EPOCH + value * _MILLISECOND


_WRITERS: dict[type[sql.SqlType], _Write] = {
    sql.DateType: _write_date,
    sql.TimeType: _write_time,
    sql.TimestampType: _write_timestamp,
}
