"""Protobuf records of cases, by schemas of the registry and not by the serde that is tested."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any

from hayase.serde.protobuf_schema import write_indexes
from hayase.serde.registry import SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE
from hayase.sql.formats.protobuf_columns import compiled_schema


def protobuf_bytes(value: Mapping[str, Any], subject: str, registry: SchemaRegistry, message: str | None) -> bytes:
    """A value of a case as a record.

    Args:
        value: fields are found whatever their case; those that the message does not have are left out.
        subject: whose newest schema it is written by.
        registry: where it is.
        message: full name of the message; `None`: the first of the file.
    """
    latest = registry.latest(subject)
    file = compiled_schema(latest.schema, lambda each: registry.version(each.subject, each.version).schema)
    indexes, descriptor = file.message(message)
    head = b"\0" + latest.id.to_bytes(HEAD_SIZE - 1, "big") + write_indexes(indexes)
    serialized: bytes = _message(value, descriptor).SerializeToString()
    return head + serialized


def _message(value: Mapping[str, Any], descriptor: Any) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    by_name = {name.upper(): item for name, item in value.items()}
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        item = by_name.get(field.name.upper())
        if item is None:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name["value"]
            for key, each in item.items():
                _put(getattr(message, field.name), key, _single(each, entry), is_message=entry.message_type is not None)
        elif field.is_repeated:
            getattr(message, field.name).extend(_single(each, field) for each in item)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(_single(item, field))
        else:
            setattr(message, field.name, _single(item, field))
    return message


def _put(target: Any, key: str, value: Any, *, is_message: bool) -> None:
    if is_message:
        target[key].CopyFrom(value)
    else:
        target[key] = value


def _single(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_name[value].number
    if field.message_type is not None:
        return _known_message(value, field)
    match field.cpp_type:
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return float(value)
        case field.CPPTYPE_BOOL:
            return bool(value)
        case field.CPPTYPE_STRING if field.type == field.TYPE_BYTES:
            return base64.b64decode(value)
        case field.CPPTYPE_STRING:
            return str(value)
    return int(value)


def _known_message(value: Any, field: Any) -> Any:
    name = field.message_type.full_name
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return _message({"value": value}, field.message_type)
    if name == "google.protobuf.Timestamp":
        seconds, milliseconds = divmod(int(value), 1000)
        return _message({"seconds": seconds, "nanos": milliseconds * 1_000_000}, field.message_type)
    if name == "google.type.Date":
        date = dt.date(1970, 1, 1) + dt.timedelta(int(value))
        return _message({"year": date.year, "month": date.month, "day": date.day}, field.message_type)
    if name == "google.type.TimeOfDay":
        time = (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=int(value))).time()
        parts = {"hours": time.hour, "minutes": time.minute, "seconds": time.second, "nanos": time.microsecond * 1000}
        return _message(parts, field.message_type)
    if name == "confluent.type.Decimal":
        text = str(value)
        unscaled = int(text.replace(".", ""))
        data = base64.b64encode(unscaled.to_bytes(16, "big", signed=True))
        return _message({"value": data, "scale": len(text.partition(".")[2])}, field.message_type)
    return _message(value, field.message_type)
