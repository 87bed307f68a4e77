"""SQL types of Protobuf schemas."""

from __future__ import annotations

from functools import cache
from typing import Any

from hayase.serde.protobuf_schema import package
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.sql.formats.protobuf_columns import compiled_schema
from hayase.sql.types import sql_types as sql

_MESSAGES: dict[str, sql.SqlType] = {
    "google.protobuf.Timestamp": sql.TIMESTAMP,
    "google.type.Date": sql.DATE,
    "google.type.TimeOfDay": sql.TIME,
}
_DECIMAL = "confluent.type.Decimal"
_DECIMAL_PRECISION = 64  # of ksqlDB, where the schema says none
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPED = {f"google.protobuf.{kind}Value" for kind in _WRAPPERS}


def sql_type(schema: RegistrySchema, registry: SchemaRegistry, message: str | None) -> sql.SqlType | None:
    """The type of a message of a schema of a registry. Fields without a type in SQL are left out.

    Args:
        schema: a .proto file.
        registry: where it is.
        message: full name, or without the package; `None`: the first.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
        SchemaRegistryError: the registry does not have, or does not answer for, what the schema refers to.
    """
    file = compiled_schema(schema, lambda each: registry.version(each.subject, each.version).schema)
    return _message(file.message(message)[1], ())


def _message(descriptor: Any, outer: tuple[str, ...]) -> sql.SqlType | None:
    if descriptor.full_name in outer:
        return None  # it holds itself
    fields = ((field.name, _field(field, (*outer, descriptor.full_name))) for field in descriptor.fields)
    return sql.StructType(tuple((name, each) for name, each in fields if each is not None))


def _field(field: Any, outer: tuple[str, ...]) -> sql.SqlType | None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (_single(field.message_type.fields_by_name[part], outer) for part in ("key", "value"))
        return None if key is None or value is None else sql.MapType(key, value)
    single = _single(field, outer)
    return sql.ArrayType(single) if field.is_repeated and single is not None else single


def _single(field: Any, outer: tuple[str, ...]) -> sql.SqlType | None:
    if field.enum_type is not None:
        return sql.STRING
    if field.message_type is None:
        return _scalars()[field.type]
    name = field.message_type.full_name
    if name == _DECIMAL:
        return _decimal(field)
    if name in _WRAPPED:
        return _single(field.message_type.fields_by_name["value"], outer)
    return _MESSAGES[name] if name in _MESSAGES else _message(field.message_type, outer)


def _decimal(field: Any) -> sql.SqlType:
    options = package("google.protobuf.descriptor_pb2").FieldOptions.FromString(field.GetOptions().SerializeToString())
    parameters = options.Extensions[package("confluent_kafka.schema_registry.confluent.meta_pb2").field_meta].params
    return sql.DecimalType(int(parameters.get("precision", _DECIMAL_PRECISION)), int(parameters.get("scale", 0)))


@cache
def _scalars() -> dict[int, sql.SqlType]:
    kinds = package("google.protobuf.descriptor").FieldDescriptor
    return {
        **dict.fromkeys((kinds.TYPE_INT32, kinds.TYPE_SINT32, kinds.TYPE_SFIXED32), sql.INTEGER),
        **dict.fromkeys((kinds.TYPE_INT64, kinds.TYPE_SINT64, kinds.TYPE_SFIXED64), sql.BIGINT),
        **dict.fromkeys((kinds.TYPE_UINT32, kinds.TYPE_FIXED32), sql.BIGINT),
        **dict.fromkeys((kinds.TYPE_UINT64, kinds.TYPE_FIXED64), sql.BIGINT),
        **dict.fromkeys((kinds.TYPE_FLOAT, kinds.TYPE_DOUBLE), sql.DOUBLE),
        kinds.TYPE_BOOL: sql.BOOLEAN,
        kinds.TYPE_STRING: sql.STRING,
        kinds.TYPE_BYTES: sql.BYTES,
    }
