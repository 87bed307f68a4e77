"""Protobuf schemas of SQL columns, as Kafka Connect's converter writes them: the text, and the compiled descriptors.

Both are made of the columns, so that no compiler is needed for what Hayase writes itself.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hayase.core.errors import ConfigError
from hayase.serde.protobuf_schema import ProtobufSchema, compiled, package
from hayase.serde.registry import RegistrySchema, SchemaReference
from hayase.sql.formats.columns import Column
from hayase.sql.formats.payload import fields_of
from hayase.sql.types import sql_types as sql

DEFAULT_NAME = "ConnectDefault1"
"""Name of the message that was given none."""

_SCALARS: dict[type[sql.SqlType], tuple[str, str]] = {
    sql.BooleanType: ("bool", "Bool"),
    sql.IntegerType: ("int32", "Int32"),
    sql.BigintType: ("int64", "Int64"),
    sql.DoubleType: ("double", "Double"),
    sql.StringType: ("string", "String"),
    sql.BytesType: ("bytes", "Bytes"),
}
_MESSAGES: dict[type[sql.SqlType], tuple[str, str]] = {
    sql.DecimalType: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    sql.DateType: ("google.type.Date", "google/type/date.proto"),
    sql.TimeType: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    sql.TimestampType: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}
_SINGLE_QUOTED_IMPORT = re.compile(r"\bimport\s+(public\s+|weak\s+)?'([^']+)'\s*;")
_SYNTAX = re.compile(r"""\bsyntax\s*=\s*["']proto[23]["']\s*;""")
_WRAPPERS = "google/protobuf/wrappers.proto"
_META = "confluent/meta.proto"
_FILES = {
    "confluent/meta.proto": "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent/type/decimal.proto": "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
    "google/protobuf/descriptor.proto": "google.protobuf.descriptor_pb2",
    "google/protobuf/timestamp.proto": "google.protobuf.timestamp_pb2",
    "google/protobuf/wrappers.proto": "google.protobuf.wrappers_pb2",
}
_GOOGLE_TYPES = {
    "google/type/date.proto": ("Date", ("year", "month", "day")),
    "google/type/timeofday.proto": ("TimeOfDay", ("hours", "minutes", "seconds", "nanos")),
}
"""Files of Google that its Python package does not have: their message and its int32 fields."""


@dataclass(slots=True)
class _Field:
    name: str
    type: str
    repeated: bool = False
    optional: bool = False
    key: str | None = None  # of a map, whose values have the type
    message: _Message | None = None  # nested, which the type names
    decimal: sql.DecimalType | None = None


@dataclass(slots=True)
class _Message:
    name: str
    fields: list[_Field] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BuiltSchema:
    """A schema of columns.

    Attributes:
        text: the .proto file.
        files: compiled, as ProtobufSchema takes them.
        message: full name of the message.
    """

    text: str
    files: tuple[bytes, ...]
    message: str


_BUILT: dict[str, tuple[bytes, ...]] = {}
"""Descriptors of the files that were made here, by their text."""


def protobuf_schema(columns: Sequence[Column], full_name: str, nullable: str | None) -> BuiltSchema:
    """The schema of columns.

    Args:
        columns: names and types.
        full_name: of the message.
        nullable: how null differs from a default: `optional`, `wrapper`, or `None`: not at all.

    Raises:
        ConfigError: `INVALID_SCHEMA`: Protobuf has no such types or names.
    """
    made = _Maker((nullable or "").lower())
    namespace, _, short = full_name.rpartition(".")
    message = made.message(short, fields_of(columns))
    text = _text(namespace, made.imports, message)
    if text not in _BUILT:
        _BUILT[text] = _compiled(namespace, made.imports, message)
    return BuiltSchema(text, _BUILT[text], full_name)


class _Maker:
    def __init__(self, nullable: str) -> None:
        self._nullable = nullable
        self._count = 1
        self.imports: list[str] = []

    def message(self, name: str, fields: Sequence[tuple[str, sql.SqlType]]) -> _Message:
        return _Message(name, [self._field(*each) for each in fields])

    def _field(self, name: str, type_: sql.SqlType) -> _Field:
        match type_:
            case sql.ArrayType(item):
                made = self._single(name, item)
                made.repeated, made.optional = True, False
                return made
            case sql.MapType(_, value):
                made = self._single(name, value)
                made.key, made.optional = "string", False
                return made
        return self._single(name, type_)

    def _single(self, name: str, type_: sql.SqlType) -> _Field:
        if isinstance(type_, sql.ArrayType | sql.MapType):
            raise ConfigError(
                "INVALID_SCHEMA",
                f"Protobuf has no lists or maps inside of lists and maps; column or field {name!r} has {type_} in one. "
                "Put it into a STRUCT",
            )
        if isinstance(type_, sql.StructType):
            self._count += 1
            inner = self.message(f"ConnectDefault{self._count}", type_.fields)
            return _Field(name, inner.name, message=inner)
        if type(type_) in _MESSAGES:
            kind, file = _MESSAGES[type(type_)]
            decimal = type_ if isinstance(type_, sql.DecimalType) else None
            for each in (_META, file) if decimal else (file,):
                self._import(each)
            return _Field(name, kind, decimal=decimal)
        kind, wrapper = _SCALARS[type(type_)]
        if self._nullable == "wrapper":
            self._import(_WRAPPERS)
            return _Field(name, f"google.protobuf.{wrapper}Value")
        return _Field(name, kind, optional=self._nullable == "optional")

    def _import(self, file: str) -> None:
        if file not in self.imports:
            self.imports.append(file)
            self.imports.sort()


def _text(namespace: str, imports: Sequence[str], message: _Message) -> str:
    lines = ['syntax = "proto3";']
    lines += [f"package {namespace};"] if namespace else []
    lines += ["", *(f'import "{file}";' for file in imports)] if imports else []
    return "\n".join([*lines, "", *_message_lines(message, "")]) + "\n"


def _message_lines(message: _Message, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    for number, each in enumerate(message.fields, 1):
        label = "repeated " if each.repeated else "optional " if each.optional else ""
        type_ = f"map<{each.key}, {each.type}>" if each.key else each.type
        options = ""
        if each.decimal is not None:
            params = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in _parameters(each.decimal))
            options = f" [(confluent.field_meta) = {{ params: [{params}] }}]"
        yield f"{indent}  {label}{type_} {each.name} = {number}{options};"
    for each in message.fields:
        if each.message is not None:
            yield ""
            yield from _message_lines(each.message, f"{indent}  ")
    yield f"{indent}}}"


def _parameters(decimal: sql.DecimalType) -> tuple[tuple[str, int], ...]:
    return (("precision", decimal.precision), ("scale", decimal.scale))


def _compiled(namespace: str, imports: Sequence[str], message: _Message) -> tuple[bytes, ...]:
    files: dict[str, bytes] = {}
    for name in imports:
        _add(name, files)
    descriptors = package("google.protobuf.descriptor_pb2")
    proto = descriptors.FileDescriptorProto(
        name="columns.proto", package=namespace, syntax="proto3", dependency=list(imports)
    )
    _fill(proto.message_type.add(), message, f".{namespace}" if namespace else "")
    compiled = (*files.values(), proto.SerializeToString())
    _ = ProtobufSchema(compiled).messages  # what is no name is refused here
    return compiled


def _fill(proto: Any, message: _Message, outer: str) -> None:
    kinds = package("google.protobuf.descriptor_pb2").FieldDescriptorProto
    path = f"{outer}.{message.name}"
    proto.name = message.name
    for number, each in enumerate(message.fields, 1):
        if each.message is not None:
            _fill(proto.nested_type.add(), each.message, path)
        target = proto.field.add(name=each.name, number=number, label=kinds.LABEL_OPTIONAL)
        if each.key is not None:
            entry = proto.nested_type.add(name=_entry_name(each.name))
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING)
            _type(entry.field.add(name="value", number=2, label=kinds.LABEL_OPTIONAL), each, path)
            target.label, target.type, target.type_name = (
                kinds.LABEL_REPEATED,
                kinds.TYPE_MESSAGE,
                f"{path}.{entry.name}",
            )
            continue
        _type(target, each, path)
        if each.repeated:
            target.label = kinds.LABEL_REPEATED
    for index, each in enumerate(each for each in message.fields if each.optional):
        proto.oneof_decl.add(name=f"_{each.name}")
        target = next(made for made in proto.field if made.name == each.name)
        target.proto3_optional, target.oneof_index = True, index


def _type(target: Any, each: _Field, path: str) -> None:
    kinds = package("google.protobuf.descriptor_pb2").FieldDescriptorProto
    if each.message is not None:
        target.type, target.type_name = kinds.TYPE_MESSAGE, f"{path}.{each.type}"
    elif "." in each.type:
        target.type, target.type_name = kinds.TYPE_MESSAGE, f".{each.type}"
    else:
        target.type = getattr(kinds, f"TYPE_{each.type.upper()}")
    if each.decimal is not None:
        meta = package(_FILES[_META]).field_meta
        for key, value in _parameters(each.decimal):
            target.options.Extensions[meta].params[key] = str(value)


def _entry_name(field_name: str) -> str:
    """The name that protoc gives the entries of a map.

    Example:
        >>> _entry_name("unit_prices")
        'UnitPricesEntry'
    """
    return "".join(word[:1].upper() + word[1:] for word in field_name.split("_")) + "Entry"


def _add(name: str, files: dict[str, bytes]) -> None:
    if name in files:
        return
    if name in _GOOGLE_TYPES:
        files[name] = _google_type(name)
        return
    descriptor = package(_FILES[name]).DESCRIPTOR
    for each in descriptor.dependencies:
        _add(each.name, files)
    files[name] = descriptor.serialized_pb


@cache
def _google_type(name: str) -> bytes:
    message, fields = _GOOGLE_TYPES[name]
    descriptors = package("google.protobuf.descriptor_pb2")
    proto = descriptors.FileDescriptorProto(name=name, package="google.type", syntax="proto3")
    made = proto.message_type.add(name=message)
    kinds = descriptors.FieldDescriptorProto
    for number, each in enumerate(fields, 1):
        made.field.add(name=each, number=number, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_INT32)
    serialized: bytes = proto.SerializeToString()
    return serialized


def compiled_schema(schema: RegistrySchema, fetch: Callable[[SchemaReference], RegistrySchema]) -> ProtobufSchema:
    """A schema of a registry, compiled, unless it was made here.

    Args:
        schema: text of a .proto file, or its descriptor in base64; it may import the files of Google that its Python
            package does not have.
        fetch: gets a schema that another one refers to.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
    """
    built = _BUILT.get(schema.text)
    if built is not None:
        return ProtobufSchema(built)
    carried = {
        SchemaReference(name, name, 0): RegistrySchema(base64.b64encode(_google_type(name)).decode(), "PROTOBUF")
        for name in _GOOGLE_TYPES
        if name in schema.text
    }
    with_carried = RegistrySchema(_for_protoc(schema.text), schema.kind, (*schema.references, *carried))
    return compiled(with_carried, lambda each: carried[each] if each in carried else fetch(each))


def _for_protoc(text: str) -> str:
    """A .proto file with what Confluent's parser does without: the import of its options, double quotes."""
    quoted = _SINGLE_QUOTED_IMPORT.sub(r'import \1"\2";', text)
    if "(confluent." in quoted and f'"{_META}"' not in quoted:
        return _SYNTAX.sub(rf'\g<0> import "{_META}";', quoted, count=1)
    return quoted
