"""SQL types of Avro schemas."""

from __future__ import annotations

from typing import Any

from hayase.serde.avro_serde import AvroSerde
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.sql.types import sql_types as sql

_PRIMITIVES: dict[str, sql.SqlType] = {
    "boolean": sql.BOOLEAN,
    "int": sql.INTEGER,
    "long": sql.BIGINT,
    "float": sql.DOUBLE,
    "double": sql.DOUBLE,
    "bytes": sql.BYTES,
    "fixed": sql.BYTES,
    "string": sql.STRING,
    "enum": sql.STRING,
}
_LOGICAL: dict[tuple[str, str | None], sql.SqlType] = {
    ("int", "date"): sql.DATE,
    ("int", "time-millis"): sql.TIME,
    ("long", "timestamp-millis"): sql.TIMESTAMP,
}


def sql_type(schema: RegistrySchema, registry: SchemaRegistry) -> sql.SqlType | None:
    """The type of a schema of a registry; `None` if SQL has none. Fields without a type in SQL are left out.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
        SchemaRegistryError: the registry does not have, or does not answer for, what the schema refers to.
    """
    parsed = AvroSerde(schema.text, registry, references=schema.references).reader
    assert parsed is not None
    named: dict[str, Any] = {}
    return _type(parsed.parsed, named, ())


def _type(schema: Any, named: dict[str, Any], outer: tuple[str, ...]) -> sql.SqlType | None:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return _type(branches[0], named, outer) if len(branches) == 1 else None
    if isinstance(schema, str):
        return _PRIMITIVES[schema] if schema in _PRIMITIVES else _type_of_name(schema, named, outer)
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, dict | list):
        return _type(kind, named, outer)
    if "name" in schema:
        named[schema["name"]] = schema
    if logical == "decimal":
        return sql.DecimalType(schema["precision"], schema.get("scale", 0))
    match kind:
        case "record":
            return _record(schema, named, outer)
        case "array":
            return _array(schema, named, outer)
        case "map":
            value = _type(schema["values"], named, outer)
            return None if value is None else sql.MapType(sql.STRING, value)
    return _LOGICAL.get((kind, logical)) or _type(kind, named, outer)


def _type_of_name(name: str, named: dict[str, Any], outer: tuple[str, ...]) -> sql.SqlType | None:
    return None if name in outer or name not in named else _type(named[name], named, outer)


def _record(schema: Any, named: dict[str, Any], outer: tuple[str, ...]) -> sql.SqlType | None:
    if schema["name"] in outer:
        return None  # it holds itself
    inside = (*outer, schema["name"])
    fields = ((field["name"], _type(field["type"], named, inside)) for field in schema["fields"])
    return sql.StructType(tuple((name, each) for name, each in fields if each is not None))


def _array(schema: Any, named: dict[str, Any], outer: tuple[str, ...]) -> sql.SqlType | None:
    item = _type(schema["items"], named, outer)
    if item is None:
        return None
    if isinstance(item, sql.StructType) and _is_entry(schema["items"]):
        types = dict(item.fields)
        return sql.MapType(types["key"], types["value"]) if types.keys() == {"key", "value"} else None
    return sql.ArrayType(item)


def _is_entry(schema: Any) -> bool:
    """Whether a record is one that Connect writes for an entry of a map."""
    if not isinstance(schema, dict):
        return False
    return (
        schema.get("connect.internal.type") == "MapEntry" or schema.get("name") == "io.confluent.connect.avro.MapEntry"
    )
