"""Protobuf records of sinks, by the schema that they carry and not by the serde that is tested."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from hayase.serde.protobuf_schema import read_indexes
from hayase.serde.registry import SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE
from hayase.sql.formats.protobuf_columns import compiled_schema

_EPOCH = dt.date(1970, 1, 1)


def protobuf_value(data: bytes, registry: SchemaRegistry) -> dict[str, Any]:
    """The fields of a record as a case writes them: scalars that are not there are zero, messages are null."""
    from google.protobuf.message_factory import GetMessageClass

    (schema_id,) = struct.unpack(">I", data[1:HEAD_SIZE])
    file = compiled_schema(registry.schema(schema_id), lambda each: registry.version(each.subject, each.version).schema)
    indexes, start = read_indexes(data, HEAD_SIZE)
    return _fields(GetMessageClass(file.messages[indexes])().FromString(data[start:]))


def _fields(message: Any) -> dict[str, Any]:
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name["value"]
        return {key: _single(item, entry) for key, item in value.items()}
    if field.is_repeated:
        return [_single(item, field) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    known = _KNOWN.get(name)
    return _fields(value) if known is None else known(value)


_KNOWN: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": lambda time: time.seconds * 1000 + time.nanos // 1_000_000,
    "google.type.Date": lambda date: (dt.date(date.year, date.month, date.day) - _EPOCH).days,
    "google.type.TimeOfDay": lambda time: (
        ((time.hours * 60 + time.minutes) * 60 + time.seconds) * 1000 + time.nanos // 1_000_000
    ),
    "confluent.type.Decimal": lambda number: Decimal(
        f"{int.from_bytes(number.value, 'big', signed=True)}E{-number.scale}"
    ),
}
