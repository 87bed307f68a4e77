"""Schemas of Connect as the JSON converter writes them, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hayase.connect.exceptions import DataError
from hayase.connect.schema import ConnectSchema, SchemaField, SchemaType

JsonObject = dict[str, Any]
T = TypeVar("T")
_NAMES = {SchemaType.FLOAT32: "float", SchemaType.FLOAT64: "double"}
_TYPES = {_NAMES.get(kind, kind.value): kind for kind in SchemaType}


def schema_to_json(schema: ConnectSchema | None, write_default: Callable[[ConnectSchema], object]) -> JsonObject | None:
    """The schema as JSON; `write_default` gives a default value as JSON."""
    if schema is None:
        return None
    described: JsonObject = {"type": _NAMES.get(schema.type, schema.type.value)}
    if schema.type is SchemaType.ARRAY:
        described["items"] = schema_to_json(schema.value_schema, write_default)
    elif schema.type is SchemaType.MAP:
        described["keys"] = schema_to_json(schema.key_schema, write_default)
        described["values"] = schema_to_json(schema.value_schema, write_default)
    elif schema.type is SchemaType.STRUCT:
        described["fields"] = [
            {**(schema_to_json(field.schema, write_default) or {}), "field": field.name} for field in schema.fields
        ]
    described["optional"] = schema.optional
    if schema.name is not None:
        described["name"] = schema.name
    if schema.version is not None:
        described["version"] = schema.version
    if schema.doc is not None:
        described["doc"] = schema.doc
    if schema.parameters:
        described["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        described["default"] = write_default(schema)
    return described


def schema_from_json(
    described: object, read_default: Callable[[ConnectSchema, object], object]
) -> ConnectSchema | None:
    """The schema that JSON describes; `read_default` reads a default value. JSON's null is no schema.

    Raises:
        DataError: `INVALID_SCHEMA`.
    """
    if described is None:
        return None
    if not isinstance(described, dict) or not isinstance(described.get("type"), str):
        raise DataError("INVALID_SCHEMA", "Schema must contain 'type' field")
    schema = _with_type(described, read_default)
    if described.get("default") is not None:
        schema = schema.with_default(read_default(schema, described["default"]))
    return schema


def _with_type(described: JsonObject, read_default: Callable[[ConnectSchema, object], object]) -> ConnectSchema:
    kind = _TYPES.get(described["type"])
    if kind is None:
        raise DataError("INVALID_SCHEMA", f"Unknown schema type: {described['type']}")
    fields: tuple[SchemaField, ...] = ()
    keys = values = None
    if kind is SchemaType.ARRAY:
        values = schema_from_json(described.get("items"), read_default)
        if values is None:
            raise DataError("INVALID_SCHEMA", "Array schema did not specify the element type")
    elif kind is SchemaType.MAP:
        keys = schema_from_json(_member(described, "keys", "key"), read_default)
        values = schema_from_json(_member(described, "values", "value"), read_default)
    elif kind is SchemaType.STRUCT:
        fields = _fields(described.get("fields"), read_default)
    return ConnectSchema(
        kind,
        optional=described.get("optional") is True,
        name=_typed(described, "name", str),
        version=_typed(described, "version", int),
        doc=_typed(described, "doc", str),
        parameters=_parameters(described.get("parameters")),
        fields=fields,
        key_schema=keys,
        value_schema=values,
    )


def _fields(described: object, read_default: Callable[[ConnectSchema, object], object]) -> tuple[SchemaField, ...]:
    if not isinstance(described, list):
        raise DataError("INVALID_SCHEMA", 'Struct schema\'s "fields" argument is not an array.')
    fields = []
    for index, each in enumerate(described):
        name = each.get("field") if isinstance(each, dict) else None
        schema = schema_from_json(each, read_default)
        if not isinstance(name, str) or schema is None:
            raise DataError("INVALID_SCHEMA", "Struct schema's field name not specified properly")
        fields.append(SchemaField(name, index, schema))
    if len({field.name for field in fields}) < len(fields):
        raise DataError("INVALID_SCHEMA", "Cannot create field because of field name duplication")
    return tuple(fields)


def _member(described: JsonObject, name: str, what: str) -> object:
    if name not in described:
        raise DataError("INVALID_SCHEMA", f"Map schema did not specify the {what} type")
    return described[name]


def _parameters(described: object) -> Mapping[str, str]:
    if not isinstance(described, dict):
        return {}
    if not all(isinstance(value, str) for value in described.values()):
        raise DataError("INVALID_SCHEMA", "Schema parameters must have string values.")
    return described


def _typed(described: JsonObject, name: str, kind: type[T]) -> T | None:
    value = described.get(name)
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
