"""Avro schemas of SQL columns, as Kafka Connect's converter writes them.

Every type is a union with null. A map is an array of entries, since its keys may be null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hayase.sql.formats.columns import Column
from hayase.sql.formats.payload import fields_of
from hayase.sql.types import sql_types as sql

DEFAULT_NAME = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
"""Full name of the record of a value that was given none."""

_CONNECT = "org.apache.kafka.connect.data."
_PRIMITIVES: dict[type[sql.SqlType], str] = {
    sql.BooleanType: "boolean",
    sql.IntegerType: "int",
    sql.BigintType: "long",
    sql.DoubleType: "double",
    sql.StringType: "string",
    sql.BytesType: "bytes",
}
_LOGICAL: dict[type[sql.SqlType], tuple[str, str, str]] = {
    sql.DateType: ("int", "Date", "date"),
    sql.TimeType: ("int", "Time", "time-millis"),
    sql.TimestampType: ("long", "Timestamp", "timestamp-millis"),
}


def avro_schema(columns: Sequence[Column], full_name: str, *, bare: bool) -> str:
    """The schema of columns as text: a record, or the type of the only column.

    Args:
        columns: names and types.
        full_name: of the record.
        bare: the value is that of the only column.
    """
    type_ = columns[0].type if bare else sql.StructType(fields_of(columns))
    return json.dumps(_schema(type_, full_name, ""))


def _schema(type_: sql.SqlType, name: str, namespace: str) -> Any:
    match type_:
        case sql.StructType(fields):
            return _record(fields, name, namespace, {"connect.name": name}, {})
        case sql.ArrayType(item):
            return {"type": "array", "items": ["null", _schema(item, name, namespace)]}
        case sql.MapType(key, value):
            entry = (("key", key), ("value", value))
            names = {"key": f"{name}_MapKey", "value": f"{name}_MapValue"}
            internal = {"connect.internal.type": "MapEntry"}
            return {"type": "array", "items": _record(entry, name, namespace, internal, names), "connect.name": name}
        case sql.DecimalType(precision, scale):
            return {
                "type": "bytes",
                "scale": scale,
                "precision": precision,
                "connect.version": 1,
                "connect.parameters": {"scale": str(scale), "connect.decimal.precision": str(precision)},
                "connect.name": f"{_CONNECT}Decimal",
                "logicalType": "decimal",
            }
        case sql.DateType() | sql.TimeType() | sql.TimestampType():
            kind, connect, logical = _LOGICAL[type(type_)]
            return {
                "type": kind,
                "connect.version": 1,
                "connect.name": f"{_CONNECT}{connect}",
                "logicalType": logical,
            }
    return _PRIMITIVES[type(type_)]


def _record(
    fields: Sequence[tuple[str, sql.SqlType]],
    full_name: str,
    outer: str,
    properties: dict[str, str],
    names: dict[str, str],
) -> dict[str, Any]:
    namespace, _, short = full_name.rpartition(".")
    return {
        "type": "record",
        "name": short,
        **({"namespace": namespace} if namespace != outer else {}),
        "fields": [
            {
                "name": name,
                "type": ["null", _schema(type_, names.get(name, f"{full_name}_{name}"), namespace)],
                "default": None,
            }
            for name, type_ in fields
        ],
        **properties,
    }
