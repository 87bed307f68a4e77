"""Schemas of Connect as JSON Schema, and back: by the rules of Confluent's `JsonSchemaData`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hayase.connect.converters.physical_values import has_text_keys
from hayase.connect.exceptions import DataError
from hayase.connect.schema import (
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    ConnectSchema,
    SchemaField,
    SchemaType,
    array_schema,
    map_schema,
)

JsonObject = dict[str, Any]
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "integer",
    SchemaType.INT16: "integer",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "integer",
    SchemaType.FLOAT32: "number",
    SchemaType.FLOAT64: "number",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "string",
}
_WITHOUT_MARK = (SchemaType.BOOLEAN, SchemaType.STRING)
_BACK = {
    "integer": SchemaType.INT64,
    "number": SchemaType.FLOAT64,
    "boolean": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
}
_MARKS = frozenset(kind.value for kind in _TYPES)
_LOGICAL = (DECIMAL_NAME, DATE_NAME, TIME_NAME, TIMESTAMP_NAME)


def document_of(
    schema: ConnectSchema, write_default: Callable[[ConnectSchema], object], index: int | None = None
) -> JsonObject:
    """The JSON Schema of values of a schema; `write_default` gives a default value as JSON."""
    made = _base(schema, write_default)
    if schema.name is not None:
        made["title"] = schema.name
    if schema.version is not None:
        made["connect.version"] = schema.version
    if schema.parameters:
        made["connect.parameters"] = dict(schema.parameters)
    if schema.doc is not None:
        made["description"] = schema.doc
    if schema.optional:
        made = {"oneOf": [{"type": "null"}, made]}
    if schema.default is not None:
        made["default"] = write_default(schema)
    if index is not None:
        made["connect.index"] = index
    return made


def _base(schema: ConnectSchema, write_default: Callable[[ConnectSchema], object]) -> JsonObject:
    if schema.type is SchemaType.STRUCT:
        properties = {field.name: document_of(field.schema, write_default, field.position) for field in schema.fields}
        return {"type": "object", "properties": properties}
    if schema.type is SchemaType.ARRAY:
        return {"type": "array", "items": _part(schema.value_schema, write_default)}
    if schema.type is SchemaType.MAP:
        values = _part(schema.value_schema, write_default)
        if has_text_keys(schema):
            return {"type": "object", "connect.type": "map", "additionalProperties": values}
        keys = _part(schema.key_schema, write_default)
        items = {
            "type": "object",
            "properties": {"key": {**keys, "connect.index": 0}, "value": {**values, "connect.index": 1}},
        }
        return {"type": "array", "connect.type": "map", "items": items}
    kind = "number" if schema.name == DECIMAL_NAME else _TYPES[schema.type]
    return {"type": kind} if schema.type in _WITHOUT_MARK else {"type": kind, "connect.type": schema.type.value}


def _part(schema: ConnectSchema | None, write_default: Callable[[ConnectSchema], object]) -> JsonObject:
    if schema is None:
        raise DataError("INVALID_SCHEMA", "an array or a map has no schema of its values, which JSON Schema needs")
    return document_of(schema, write_default)


class DocumentReader:
    """The Connect schema of values that a JSON Schema describes.

    Args:
        document: the JSON Schema; what it refers to with `$ref` is looked for inside.
        read_default: reads a default value of a schema from JSON.
        optional_unless_required: properties that `required` does not name may be absent
            (`use.optional.for.nonrequired`).
    """

    def __init__(
        self,
        document: JsonObject,
        read_default: Callable[[ConnectSchema, object], object],
        *,
        optional_unless_required: bool = False,
    ) -> None:
        self._document = document
        self._read_default = read_default
        self._optional = optional_unless_required
        self._open: list[str] = []

    def schema(self) -> ConnectSchema:
        """The schema of the whole; raises `DataError` for what Connect has no type for."""
        return self._of(self._document)

    def _of(self, document: object) -> ConnectSchema:
        if not isinstance(document, dict):
            raise _unknown(document)
        if "$ref" in document:
            return self._referred(str(document["$ref"]))
        branches = document.get("oneOf") or document.get("anyOf")
        kinds = document.get("type")
        if isinstance(branches, list):
            schema = self._one_of(branches)
        elif isinstance(kinds, list):
            schema = self._one_of([{**document, "type": kind} for kind in kinds])
        else:
            return self._with_default(self._named(self._base(document), document), document)
        return self._with_default(schema, document)

    def _one_of(self, branches: list[Any]) -> ConnectSchema:
        others = [each for each in branches if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(others) != 1:
            raise DataError("INVALID_SCHEMA", f"a choice of {len(others)} types in a JSON Schema; Connect has one type")
        return self._of(others[0]).as_optional(len(others) < len(branches))

    def _referred(self, reference: str) -> ConnectSchema:
        if reference in self._open:
            raise DataError(
                "INVALID_SCHEMA", f"the JSON Schema {reference!r} holds itself; Connect has no such schemas"
            )
        found: Any = self._document
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not reference.startswith("#/") or found is None:
            raise DataError("INVALID_SCHEMA", f"the JSON Schema refers to {reference!r:.80}, which it does not have")
        self._open.append(reference)
        schema = self._of(found)
        self._open.pop()
        return schema

    def _base(self, document: JsonObject) -> ConnectSchema:
        kind, mark = document.get("type"), document.get("connect.type")
        if kind == "object":
            if mark == "map" or (
                "properties" not in document and isinstance(document.get("additionalProperties"), dict)
            ):
                return map_schema(ConnectSchema(SchemaType.STRING), self._of(document.get("additionalProperties")))
            return self._struct(document)
        if kind == "array":
            items = document.get("items")
            if mark == "map" and isinstance(items, dict):
                parts = items.get("properties", {})
                return map_schema(self._of(parts.get("key")), self._of(parts.get("value")))
            return array_schema(self._of(items))
        if kind is None and document.get("enum"):
            kind = "string"
        if kind not in _BACK:
            raise _unknown(document)
        return ConnectSchema(SchemaType(mark) if mark in _MARKS else _BACK[kind])

    def _struct(self, document: JsonObject) -> ConnectSchema:
        properties = document.get("properties", {})
        required = document.get("required", ())
        order = sorted(properties, key=lambda name: properties[name].get("connect.index", len(properties)))
        fields = []
        for position, name in enumerate(order):
            schema = self._of(properties[name])
            if self._optional and name not in required:
                schema = schema.as_optional()
            fields.append(SchemaField(name, position, schema))
        return ConnectSchema(SchemaType.STRUCT, fields=tuple(fields))

    def _named(self, schema: ConnectSchema, document: JsonObject) -> ConnectSchema:
        title = document.get("title")
        if schema.type.is_primitive and title not in _LOGICAL and "connect.version" not in document:
            title = title if "connect.parameters" in document else None
        return schema.named(
            title,
            version=document.get("connect.version"),
            doc=document.get("description"),
            parameters=document.get("connect.parameters"),
        )

    def _with_default(self, schema: ConnectSchema, document: JsonObject) -> ConnectSchema:
        default = document.get("default")
        return schema if default is None else schema.with_default(self._read_default(schema, default))


def _unknown(document: object) -> DataError:
    return DataError("INVALID_SCHEMA", f"Connect has no type for the JSON Schema {document!r:.100}")
