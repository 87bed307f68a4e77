"""JSON Schemas of SQL columns, as Kafka Connect's converter writes them: everything may be null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hayase.sql.formats.columns import Column
from hayase.sql.formats.payload import fields_of
from hayase.sql.types import sql_types as sql

_CONNECT = "org.apache.kafka.connect.data."
_PRIMITIVES: dict[type[sql.SqlType], dict[str, str]] = {
    sql.BooleanType: {"type": "boolean"},
    sql.IntegerType: {"type": "integer", "connect.type": "int32"},
    sql.BigintType: {"type": "integer", "connect.type": "int64"},
    sql.DoubleType: {"type": "number", "connect.type": "float64"},
    sql.StringType: {"type": "string"},
    sql.BytesType: {"type": "string", "connect.type": "bytes"},
}
_LOGICAL: dict[type[sql.SqlType], tuple[str, str]] = {
    sql.DateType: ("Date", "int32"),
    sql.TimeType: ("Time", "int32"),
    sql.TimestampType: ("Timestamp", "int64"),
}


def json_schema(columns: Sequence[Column], *, bare: bool) -> str:
    """The schema of columns as text: an object, or the only column's type or null."""
    if bare:
        return json.dumps(_nullable(_schema(columns[0].type)))
    return json.dumps(_object(fields_of(columns)))


def _nullable(schema: dict[str, Any], index: int | None = None) -> dict[str, Any]:
    place = {} if index is None else {"connect.index": index}
    return {**place, "oneOf": [{"type": "null"}, schema]}


def _object(fields: Sequence[tuple[str, sql.SqlType]]) -> dict[str, Any]:
    properties = {name: _nullable(_schema(type_), index) for index, (name, type_) in enumerate(fields)}
    return {"type": "object", "properties": properties}


def _schema(type_: sql.SqlType) -> dict[str, Any]:
    match type_:
        case sql.StructType(fields):
            return _object(fields)
        case sql.ArrayType(item):
            return {"type": "array", "items": _nullable(_schema(item))}
        case sql.MapType(key, value):
            entry = _object((("key", key), ("value", value)))
            return {"type": "array", "items": entry, "connect.type": "map"}
        case sql.DecimalType(precision, scale):
            return {
                "type": "number",
                "title": f"{_CONNECT}Decimal",
                "connect.version": 1,
                "connect.type": "bytes",
                "connect.parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
            }
        case sql.DateType() | sql.TimeType() | sql.TimestampType():
            name, kind = _LOGICAL[type(type_)]
            return {"type": "integer", "title": f"{_CONNECT}{name}", "connect.version": 1, "connect.type": kind}
    return dict(_PRIMITIVES[type(type_)])
