"""Schemas of Connect as Avro, and back: by the rules of Confluent's `AvroData`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hayase.connect.converters.physical_values import has_text_keys
from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import scale_of
from hayase.connect.schema import (
    DATE_NAME,
    DATE_SCHEMA,
    DECIMAL_NAME,
    TIME_NAME,
    TIME_SCHEMA,
    TIMESTAMP_NAME,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaField,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
)

AvroJson = Any
"""A schema of Avro as JSON."""
Default = Callable[[ConnectSchema], object]
_NAMESPACE = "io.confluent.connect.avro"
_ENTRY = f"{_NAMESPACE}.MapEntry"
UNION_NAME = f"{_NAMESPACE}.Union"
_ENUM = f"{_NAMESPACE}.Enum"
_PRECISION = "connect.decimal.precision"
_PRECISION_DEFAULT = 64
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_SMALL = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}
_BACK = {
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "boolean": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
    "bytes": SchemaType.BYTES,
}
_LOGICAL = {DATE_NAME: "date", TIME_NAME: "time-millis", TIMESTAMP_NAME: "timestamp-millis"}
_LOGICAL_BACK = {
    ("int", "date"): DATE_SCHEMA,
    ("int", "time-millis"): TIME_SCHEMA,
    ("long", "timestamp-millis"): TIMESTAMP_SCHEMA,
}


class AvroWriterSchema:
    """The Avro schema that values of a Connect schema are written by.

    Args:
        write_default: gives the default value of a schema as Avro's JSON.
        connect_meta_data: whether names, versions, parameters and small types of Connect are in the schema.
    """

    def __init__(self, write_default: Default, *, connect_meta_data: bool = True) -> None:
        self._write_default = write_default
        self._meta = connect_meta_data
        self._defined: dict[str, ConnectSchema] = {}
        self._unnamed = 0

    def of(self, schema: ConnectSchema) -> AvroJson:
        """The schema as JSON; raises `DataError` for what Avro cannot say."""
        base = self._base(schema)
        if not schema.optional:
            return base
        # The default of a union is of its first type.
        return [base, "null"] if schema.default is not None else ["null", base]

    def _base(self, schema: ConnectSchema) -> AvroJson:
        match schema.type:
            case SchemaType.ARRAY:
                made: AvroJson = {"type": "array", "items": self._part(schema.value_schema)}
            case SchemaType.MAP:
                made = self._map(schema)
            case SchemaType.STRUCT:
                return self._record(schema)
            case _:
                made = {"type": _TYPES[schema.type], **_logical(schema)}
        made.update(self._meta_data(schema))
        return made["type"] if len(made) == 1 else made

    def _part(self, schema: ConnectSchema | None) -> AvroJson:
        if schema is None:
            raise DataError("INVALID_SCHEMA", "an array or a map has no schema of its values, which Avro needs")
        return self.of(schema)

    def _map(self, schema: ConnectSchema) -> AvroJson:
        if has_text_keys(schema):
            return {"type": "map", "values": self._part(schema.value_schema)}
        name = schema.name or _ENTRY
        if name in self._defined:
            same = self._defined[name] == schema
            if not same:
                raise DataError("INVALID_SCHEMA", f"two maps with other keys than text need names of their own: {name}")
            return {"type": "array", "items": name}
        self._defined[name] = schema
        fields = [
            self._field("key", schema.key_schema),
            self._field("value", schema.value_schema),
        ]
        entry: dict[str, AvroJson] = {"type": "record", **_names(name), "fields": fields}
        if schema.name is not None:
            entry["connect.internal.type"] = "MapEntry"
        return {"type": "array", "items": entry}

    def _field(self, name: str, schema: ConnectSchema | None) -> dict[str, AvroJson]:
        made = {"name": name, "type": self._part(schema)}
        assert schema is not None, "a part without a schema is refused"
        if schema.doc is not None:
            made["doc"] = schema.doc
        if schema.default is not None:
            made["default"] = self._write_default(schema)
        elif schema.optional:
            made["default"] = None
        return made

    def _record(self, schema: ConnectSchema) -> AvroJson:
        if schema.name is None:
            self._unnamed += 1
            name = f"{_NAMESPACE}.ConnectDefault{self._unnamed if self._unnamed > 1 else ''}"
        else:
            name = schema.name
        known = self._defined.get(name)
        if known is not None:
            if known.fields != schema.fields:
                raise DataError("INVALID_SCHEMA", f"the name {name!r} is of two structs with different fields")
            return name
        self._defined[name] = schema
        fields = [self._field(field.name, field.schema) for field in schema.fields]
        made: dict[str, AvroJson] = {"type": "record", **_names(name), "fields": fields}
        made.update(self._meta_data(schema))
        return made

    def _meta_data(self, schema: ConnectSchema) -> dict[str, AvroJson]:
        if not self._meta:
            return {}
        made: dict[str, AvroJson] = {}
        if schema.doc is not None:
            made["connect.doc"] = schema.doc
        if schema.version is not None:
            made["connect.version"] = schema.version
        if schema.parameters:
            made["connect.parameters"] = dict(schema.parameters)
        if schema.default is not None:
            made["connect.default"] = self._write_default(schema)
        if schema.name is not None:
            made["connect.name"] = schema.name
        if schema.type in _SMALL:
            made["connect.type"] = _SMALL[schema.type]
        return made


def _names(name: str) -> dict[str, AvroJson]:
    space, _, short = name.rpartition(".")
    return {"name": short, "namespace": space} if space else {"name": short}


def _logical(schema: ConnectSchema) -> dict[str, AvroJson]:
    if schema.name == DECIMAL_NAME:
        precision = int(schema.parameters.get(_PRECISION, _PRECISION_DEFAULT))
        return {"scale": scale_of(schema), "precision": precision, "logicalType": "decimal"}
    logical = _LOGICAL.get(schema.name or "")
    return {} if logical is None else {"logicalType": logical}


class AvroReaderSchema:
    """The Connect schema of values that were written by an Avro schema.

    Args:
        read_default: reads a default value of a schema from Avro's JSON.
    """

    def __init__(self, read_default: Callable[[ConnectSchema, object], object]) -> None:
        self._read_default = read_default
        self._named: dict[str, AvroJson] = {}
        self._open: list[str] = []

    def of(self, definition: AvroJson, default: object = None, doc: str | None = None) -> ConnectSchema:
        """The schema; raises `DataError` for one that holds itself, which Connect cannot say."""
        if isinstance(definition, list):
            return self._union(definition, default)
        if isinstance(definition, str):
            if definition in _BACK:
                definition = {"type": definition}
            elif definition in self._named:
                definition = self._named[definition]
            else:
                raise DataError("INVALID_SCHEMA", f"Connect has no type for Avro's {definition!r}")
        if isinstance(definition["type"], (dict, list)):
            return self.of(definition["type"], default, doc)
        schema = self._base(definition)
        return self._with_meta_data(schema, definition, default, doc)

    def _union(self, branches: list[AvroJson], default: object) -> ConnectSchema:
        others = [branch for branch in branches if branch != "null"]
        optional = len(others) < len(branches)
        if len(others) == 1:
            return self.of(others[0], default).as_optional(optional)
        fields = []
        for index, branch in enumerate(others):
            schema = self.of(branch).as_optional()
            fields.append(SchemaField(branch_name(branch), index, schema))
        return ConnectSchema(SchemaType.STRUCT, name=UNION_NAME, optional=optional, fields=tuple(fields))

    def _base(self, definition: dict[str, AvroJson]) -> ConnectSchema:
        kind = definition["type"]
        match kind:
            case "record":
                return self._record(definition)
            case "array":
                return self._array(definition)
            case "map":
                return map_schema(ConnectSchema(SchemaType.STRING), self.of(definition["values"]))
            case "enum":
                self._named[definition["name"]] = definition
                symbols = {f"{_ENUM}.{symbol}": symbol for symbol in definition["symbols"]}
                return ConnectSchema(SchemaType.STRING, parameters={_ENUM: definition["name"], **symbols})
            case "fixed":
                self._named[definition["name"]] = definition
                if definition.get("logicalType") == "decimal":
                    return decimal_schema(definition.get("scale", 0))
                size = str(definition["size"])
                return ConnectSchema(SchemaType.BYTES, name=definition["name"], parameters={"connect.fixed.size": size})
        if kind not in _BACK:
            return self.of(kind)
        logical = str(definition.get("logicalType"))
        if logical == "decimal":
            schema = decimal_schema(definition.get("scale", 0))
            precision = definition["precision"]
            if precision != _PRECISION_DEFAULT:
                parameters = {**schema.parameters, _PRECISION: str(precision)}
                return schema.named(schema.name, version=schema.version, parameters=parameters)
            return schema
        if (kind, logical) in _LOGICAL_BACK:
            return _LOGICAL_BACK[kind, logical]
        small = definition.get("connect.type")
        return ConnectSchema(SchemaType(small) if kind == "int" and small in ("int8", "int16") else _BACK[kind])

    def _array(self, definition: dict[str, AvroJson]) -> ConnectSchema:
        items = definition["items"]
        entry = self._named.get(items, items) if isinstance(items, str) else items
        if isinstance(entry, dict) and entry["type"] == "record" and _is_entry(entry):
            self._named[entry["name"]] = entry
            key, value = (self.of(field["type"]) for field in entry["fields"])
            return map_schema(key, value)
        return array_schema(self.of(items))

    def _record(self, definition: dict[str, AvroJson]) -> ConnectSchema:
        name = definition["name"]
        if name in self._open:
            raise DataError("INVALID_SCHEMA", f"the record {name} holds itself; Connect has no such schemas")
        self._named[name] = definition
        self._open.append(name)
        fields = tuple(
            SchemaField(field["name"], index, self._field(field)) for index, field in enumerate(definition["fields"])
        )
        self._open.pop()
        # Names that the writer made up for structs without one.
        known = None if name.startswith(f"{_NAMESPACE}.ConnectDefault") else name
        return ConnectSchema(SchemaType.STRUCT, name=known, fields=fields)

    def _field(self, field: dict[str, AvroJson]) -> ConnectSchema:
        return self.of(field["type"], field.get("default"), field.get("doc"))

    def _with_meta_data(
        self, schema: ConnectSchema, definition: dict[str, AvroJson], default: object, doc: str | None
    ) -> ConnectSchema:
        parameters = {**schema.parameters, **definition.get("connect.parameters", {})}
        named = schema.named(
            definition.get("connect.name", schema.name),
            version=definition.get("connect.version", schema.version),
            doc=definition.get("connect.doc", doc),
            parameters=parameters,
        )
        default = definition.get("connect.default", default)
        return named if default is None else named.with_default(self._read_default(named, default))


def _is_entry(entry: dict[str, AvroJson]) -> bool:
    return entry["name"] == _ENTRY or entry.get("connect.internal.type") == "MapEntry"


def branch_name(branch: AvroJson) -> str:
    """The name of a type in a union: of a named type its last part, else the type's."""
    if isinstance(branch, str):
        return branch.rpartition(".")[2]
    if branch["type"] in ("record", "enum", "fixed"):
        return str(branch["name"]).rpartition(".")[2]
    return str(branch["type"])
