"""Schemas of Connect as Protobuf messages, and back: by the rules of Confluent's `ProtobufData`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from hayase.serde.protobuf_schema import google_type, package

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

TAG = "io.confluent.connect.protobuf.Tag"
_DEFAULT_NAME = "ConnectDefault"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "INT32",
    SchemaType.INT16: "INT32",
    SchemaType.INT32: "INT32",
    SchemaType.INT64: "INT64",
    SchemaType.FLOAT32: "FLOAT",
    SchemaType.FLOAT64: "DOUBLE",
    SchemaType.BOOLEAN: "BOOL",
    SchemaType.STRING: "STRING",
    SchemaType.BYTES: "BYTES",
}
_SMALL = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}
_MESSAGES: Mapping[str, tuple[str, str]] = {
    DECIMAL_NAME: (".confluent.type.Decimal", "confluent/type/decimal.proto"),
    DATE_NAME: (".google.type.Date", "google/type/date.proto"),
    TIME_NAME: (".google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP_NAME: (".google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
LOGICAL_MESSAGES: Mapping[str, ConnectSchema] = {
    "google.type.Date": DATE_SCHEMA,
    "google.type.TimeOfDay": TIME_SCHEMA,
    "google.protobuf.Timestamp": TIMESTAMP_SCHEMA,
}
DECIMAL_MESSAGE = "confluent.type.Decimal"
_META = "confluent/meta.proto"
_CONFLUENT = "confluent_kafka.schema_registry."


def meta_extension() -> Any:
    """The option in which Confluent keeps what Protobuf has no word for."""
    return package(f"{_CONFLUENT}confluent.meta_pb2").field_meta


class MessageWriter:
    """Makes the descriptor of the message that values of a struct are written as.

    Args:
        optional_fields: whether fields that may be null are `optional`, so that null comes back as null
            (`optional.for.nullables`).
    """

    def __init__(self, *, optional_fields: bool = False) -> None:
        descriptor_pb2 = package("google.protobuf.descriptor_pb2")
        self._field_type = descriptor_pb2.FieldDescriptorProto
        self._file = descriptor_pb2.FileDescriptorProto(syntax="proto3")
        self._optional_fields = optional_fields

    def descriptor(self, schema: ConnectSchema) -> Descriptor:
        """The descriptor of a struct's message; raises `DataError` for what Protobuf cannot say."""
        if schema.type is not SchemaType.STRUCT:
            raise DataError("INVALID_SCHEMA", f"Protobuf has messages only, and the schema is {schema.type.name}")
        space, _, short = (schema.name or f"{_DEFAULT_NAME}1").rpartition(".")
        self._file.name = f"{short}.proto"
        self._file.package = ".".join(_checked(part) for part in space.split(".")) if space else ""
        path = f".{space}.{short}" if space else f".{short}"
        self._message(self._file.message_type.add(), schema, _checked(short), path)
        pool = package("google.protobuf.descriptor_pool").DescriptorPool()
        for name in self._file.dependency:
            _add_file(pool, name)
        try:
            pool.Add(self._file) if hasattr(pool, "Add") else pool.AddSerializedFile(self._file.SerializeToString())
        except (TypeError, ValueError) as error:
            raise DataError("INVALID_SCHEMA", f"the schema cannot be a Protobuf message: {error}") from error
        descriptor: Descriptor = pool.FindMessageTypeByName(path[1:])
        return descriptor

    def _message(self, made: Any, schema: ConnectSchema, name: str, path: str) -> None:
        made.name = name
        used: set[int] = set()
        nested: dict[str, ConnectSchema] = {}
        for field in schema.fields:
            number = int(field.schema.parameters.get(TAG, field.position + 1))
            if number in used:
                raise DataError("INVALID_SCHEMA", f"two fields of {name} have the number {number} ({TAG})")
            used.add(number)
            self._field(made, made.field.add(name=_checked(field.name), number=number), field.schema, path, nested)

    def _field(self, made: Any, field: Any, schema: ConnectSchema, path: str, nested: dict[str, ConnectSchema]) -> None:
        kind = self._field_type
        field.label = kind.LABEL_OPTIONAL
        element = schema
        if schema.type is SchemaType.ARRAY:
            field.label = kind.LABEL_REPEATED
            element = _present(schema.value_schema)
            if element.type in (SchemaType.ARRAY, SchemaType.MAP):
                raise DataError("INVALID_SCHEMA", f"{field.name}: Protobuf has no lists of lists or of maps")
        if element.type is SchemaType.MAP:
            self._map(made, field, element, path)
        elif (message := _MESSAGES.get(element.name or "")) is not None:
            field.type = kind.TYPE_MESSAGE
            field.type_name, file = message
            self._import(file)
            if element.name == DECIMAL_NAME:
                self._meta(field, scale=str(scale_of(element)))
        elif element.type is SchemaType.STRUCT:
            field.type = kind.TYPE_MESSAGE
            name = _checked((element.name or f"{_DEFAULT_NAME}{len(nested) + 2}").rpartition(".")[2])
            if name not in nested:
                nested[name] = element
                self._message(made.nested_type.add(), element, name, f"{path}.{name}")
            elif nested[name].fields != element.fields:
                raise DataError("INVALID_SCHEMA", f"the name {name!r} is of two structs with different fields")
            field.type_name = f"{path}.{name}"
        else:
            field.type = getattr(kind, f"TYPE_{_TYPES[element.type]}")
            if element.type in _SMALL:
                self._meta(field, **{"connect.type": _SMALL[element.type]})
            if schema.optional and self._optional_fields and schema.type is not SchemaType.ARRAY:
                field.proto3_optional = True
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")

    def _map(self, made: Any, field: Any, schema: ConnectSchema, path: str) -> None:
        kind = self._field_type
        name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = made.nested_type.add(name=name)
        field.label, field.type, field.type_name = kind.LABEL_REPEATED, kind.TYPE_MESSAGE, f"{path}.{name}"
        keys, values = _present(schema.key_schema), _present(schema.value_schema)
        allowed = (SchemaType.STRING, SchemaType.INT32, SchemaType.INT64, SchemaType.BOOLEAN)
        entry.options.map_entry = keys.type in allowed and not keys.optional and keys.name is None
        if values.type in (SchemaType.ARRAY, SchemaType.MAP):
            raise DataError("INVALID_SCHEMA", f"{field.name}: Protobuf has no maps of lists or of maps")
        nested: dict[str, ConnectSchema] = {}
        plain = ConnectSchema(keys.type, name=keys.name, parameters=keys.parameters, fields=keys.fields)
        self._field(entry, entry.field.add(name="key", number=1), plain, f"{path}.{name}", nested)
        value_field = entry.field.add(name="value", number=2)
        # Entries of maps hold no other messages.
        self._field(
            made if values.type is SchemaType.STRUCT else entry, value_field, values.as_optional(False), path, nested
        )

    def _import(self, file: str) -> None:
        if file not in self._file.dependency:
            self._file.dependency.append(file)

    def _meta(self, field: Any, **parameters: str) -> None:
        self._import(_META)
        for name, value in parameters.items():
            field.options.Extensions[meta_extension()].params[name] = value


def _add_file(pool: Any, name: str) -> None:
    if name.startswith("google/type/"):
        pool.AddSerializedFile(google_type(name))
        return
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    file = package(module if name.startswith("google/") else _CONFLUENT + module).DESCRIPTOR
    for imported in file.dependencies:
        _add_file(pool, imported.name)
    pool.AddSerializedFile(file.serialized_pb)


def _present(schema: ConnectSchema | None) -> ConnectSchema:
    if schema is None:
        raise DataError("INVALID_SCHEMA", "an array or a map has no schema of its values, which Protobuf needs")
    return schema


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise DataError("INVALID_SCHEMA", f"{name!r} cannot be a name in Protobuf: letters, digits and _ are allowed")
    return name


def schema_of(descriptor: Descriptor, _open: tuple[str, ...] = ()) -> ConnectSchema:
    """The Connect schema of a message; raises `DataError` for one that holds itself."""
    name = str(descriptor.full_name)
    if name in _open:
        raise DataError("INVALID_SCHEMA", f"the message {name} holds itself; Connect has no such schemas")
    fields = []
    described: Sequence[Any] = descriptor.fields  # the stubs do not have all that fields have
    for position, field in enumerate(described):
        schema = _field_schema(field, (*_open, name))
        parameters = {**schema.parameters, TAG: str(field.number)}
        named = schema.named(schema.name, version=schema.version, doc=schema.doc, parameters=parameters)
        fields.append(SchemaField(str(field.name), position, named))
    known = None if name.startswith(_DEFAULT_NAME) else name
    return ConnectSchema(SchemaType.STRUCT, name=known, fields=tuple(fields))


def _field_schema(field: FieldDescriptor, outer: tuple[str, ...]) -> ConnectSchema:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
        return map_schema(_one(key, outer).as_optional(False), _one(value, outer).as_optional(), optional=True)
    if field.is_repeated:
        if kind is not None and is_entry(field):
            key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
            return map_schema(_one(key, outer), _one(value, outer), optional=True)
        return array_schema(_one(field, outer).as_optional(False), optional=True)
    return _one(field, outer).as_optional()


def is_entry(field: FieldDescriptor) -> bool:
    """Whether a repeated field is a map with keys that maps of Protobuf cannot have."""
    kind = field.message_type
    return kind is not None and kind.name.endswith("Entry") and {each.name for each in kind.fields} == {"key", "value"}


def _one(field: Any, outer: tuple[str, ...]) -> ConnectSchema:
    if field.enum_type is not None:
        return ConnectSchema(SchemaType.STRING, parameters={"io.confluent.connect.protobuf.Enum": field.enum_type.name})
    meta = field.GetOptions().Extensions[meta_extension()].params
    if field.message_type is not None:
        name = str(field.message_type.full_name)
        if name in LOGICAL_MESSAGES:
            return LOGICAL_MESSAGES[name]
        if name == DECIMAL_MESSAGE:
            return decimal_schema(int(meta.get("scale", "0")))
        if name.startswith("google.protobuf.") and name.endswith("Value") and name != "google.protobuf.Value":
            return _one(field.message_type.fields_by_name["value"], outer).as_optional()
        return schema_of(field.message_type, outer)
    kind = {
        field.CPPTYPE_INT32: SchemaType.INT32,
        field.CPPTYPE_UINT32: SchemaType.INT64,
        field.CPPTYPE_INT64: SchemaType.INT64,
        field.CPPTYPE_UINT64: SchemaType.INT64,
        field.CPPTYPE_FLOAT: SchemaType.FLOAT32,
        field.CPPTYPE_DOUBLE: SchemaType.FLOAT64,
        field.CPPTYPE_BOOL: SchemaType.BOOLEAN,
        field.CPPTYPE_STRING: SchemaType.BYTES if field.type == field.TYPE_BYTES else SchemaType.STRING,
    }[field.cpp_type]
    small = meta.get("connect.type", "")
    return ConnectSchema(SchemaType(small) if kind is SchemaType.INT32 and small in ("int8", "int16") else kind)
