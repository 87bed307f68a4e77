"""Columns from the schemas of a registry, and schemas of columns for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hayase.core.errors import ConfigError, SchemaRegistryError
from hayase.serde.protocol import Side
from hayase.serde.registry import Kind, RegistrySchema, SchemaRegistry
from hayase.sql.errors import StatementError
from hayase.sql.formats.avro_columns import DEFAULT_NAME, avro_schema
from hayase.sql.formats.avro_types import sql_type as type_of_avro
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FULL_SCHEMA_NAME, SCHEMA_ID, FormatInfo
from hayase.sql.formats.json_schema_columns import json_schema
from hayase.sql.formats.json_schema_types import sql_type as type_of_json
from hayase.sql.formats.protobuf_format import schema_of
from hayase.sql.formats.protobuf_types import sql_type as type_of_protobuf
from hayase.sql.formats.serdes import wraps_single
from hayase.sql.types import sql_types as sql

_KINDS: dict[str, Kind] = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}
_UNWRAPPED: dict[Side, str] = {"key": "ROWKEY", "value": "ROWVAL"}


@dataclass(frozen=True, slots=True)
class SchemaColumns:
    """Columns of a schema of a registry.

    Attributes:
        columns: names and types.
        schema_id: the schema's id.
        schema: the schema.
    """

    columns: tuple[Column, ...]
    schema_id: int
    schema: RegistrySchema


def subject_of(topic: str, side: Side) -> str:
    """The subject of a topic's keys or values."""
    return f"{topic}-{side}"


def subjects_of(topic: str, formats: Mapping[Side, FormatInfo]) -> list[str]:
    """The subjects of a topic, of those sides whose formats have schemas in a registry."""
    return [subject_of(topic, side) for side, format_ in formats.items() if format_.name in _KINDS]


def infer_columns(format_: FormatInfo, side: Side, topic: str, registry: SchemaRegistry) -> SchemaColumns:
    """The columns of the newest schema of a topic, or of the schema whose id the format has.

    Names are upper-cased, unless the schema was asked for by its id. An only column that is not wrapped is `ROWKEY` or
    `ROWVAL`.

    Args:
        format_: with its properties: the schema's id, the full name of the message, and whether values are wrapped.
        side: keys or values.
        topic: whose schema it is.
        registry: where it is.

    Raises:
        StatementError: there is no such schema, or none that columns can be made of.
        SchemaRegistryError: the registry does not answer.
    """
    schema_id, schema = _found(format_, side, topic, registry)
    if schema.kind != _KINDS[format_.name]:
        raise StatementError(
            "SCHEMA_OF_OTHER_FORMAT",
            f"Schema for message {side}s on topic '{topic}' is a schema of the kind {schema.kind}; the {side} format "
            f"is {format_.name}",
        )
    by_id = format_.property(SCHEMA_ID) is not None
    try:
        type_ = _type(format_, schema, registry)
    except (ConfigError, SchemaRegistryError) as error:
        if isinstance(error, SchemaRegistryError) and error.condition != "SCHEMA_NOT_FOUND":
            raise
        raise StatementError(
            "UNUSABLE_SCHEMA",
            f"Unable to read the schema for message {side}s on topic '{topic}': {error}",
        ) from error
    if type_ is None:
        raise StatementError(
            "UNUSABLE_SCHEMA",
            f"Schema for message {side}s on topic '{topic}' (id {schema_id}) has no type that SQL has",
        )
    type_ = type_ if by_id else _upper_cased(type_)
    if not wraps_single(format_, side):
        return SchemaColumns((Column(_UNWRAPPED[side], type_),), schema_id, schema)
    if not isinstance(type_, sql.StructType):
        raise StatementError(
            "SCHEMA_NOT_WRAPPED",
            "Schema returned from schema registry is anonymous type. To use this schema with ksqlDB, set "
            "'WRAP_SINGLE_VALUE=false' in the WITH clause properties.",
        )
    return SchemaColumns(tuple(Column(name, each) for name, each in type_.fields), schema_id, schema)


def schema_to_register(format_: FormatInfo, side: Side, columns: Sequence[Column]) -> RegistrySchema:
    """The schema by which a format writes columns; raises StatementError if it has none for them."""
    bare = len(columns) == 1 and not wraps_single(format_, side)
    match format_.name:
        case "AVRO":
            name = format_.property(FULL_SCHEMA_NAME) or DEFAULT_NAME
            return RegistrySchema(avro_schema(columns, name, bare=bare), "AVRO")
        case "JSON_SR":
            return RegistrySchema(json_schema(columns, bare=bare), "JSON")
        case "PROTOBUF":
            try:
                return RegistrySchema(schema_of(format_, columns).text, "PROTOBUF")
            except ConfigError as error:
                raise StatementError("FORMAT_CANNOT_HOLD_COLUMNS", error.message) from error
    raise ConfigError("INVALID_FORMAT", f"{format_.name} has no schemas; allowed are {', '.join(_KINDS)}")


def register_sink(
    format_: FormatInfo, side: Side, columns: Sequence[Column], topic: str, registry: SchemaRegistry
) -> int | None:
    """Register the schema of a sink's columns, as its statement is carried out; its id.

    Where the format has the id of a schema, the columns are compared with that one instead. `None`: there is nothing
    to register. See also `register_source`.

    Raises:
        StatementError: the columns do not fit the schema, or the registry refuses theirs.
        SchemaRegistryError: the registry does not answer.
    """
    if not columns or format_.name not in _KINDS:
        return None
    if format_.property(SCHEMA_ID) is not None:
        return _compared(format_, side, columns, topic, registry)
    schema = schema_to_register(format_, side, columns)
    try:
        return registry.register(subject_of(topic, side), schema)
    except SchemaRegistryError as error:
        if error.condition not in ("SCHEMA_INCOMPATIBLE", "INVALID_SCHEMA"):
            raise
        raise StatementError(
            "SCHEMA_NOT_REGISTERED", f"Could not register schema for topic: {topic}: {error.message}"
        ) from error


def register_source(
    format_: FormatInfo, side: Side, columns: Sequence[Column], topic: str, registry: SchemaRegistry
) -> int | None:
    """The same for a source whose statement has columns: only if its topic has no schema yet, else `None`."""
    if not columns or format_.name not in _KINDS:
        return None
    if format_.property(SCHEMA_ID) is None and subject_of(topic, side) in registry.subjects():
        return None
    return register_sink(format_, side, columns, topic, registry)


def _compared(format_: FormatInfo, side: Side, columns: Sequence[Column], topic: str, registry: SchemaRegistry) -> int:
    inferred = infer_columns(format_, side, topic, registry)
    by_name = wraps_single(format_, side)
    expected = [(column.name if by_name else "", column.type) for column in inferred.columns]
    changed = [
        column
        for index, column in enumerate(columns)
        if [(column.name if by_name else "", column.type)] != expected[index : index + 1]
    ]
    if changed:
        raise StatementError(
            "COLUMNS_DO_NOT_FIT_SCHEMA",
            f"The following {side} columns are changed, missing or reordered: [{_shown(side, changed)}]. Schema from "
            f"schema registry is [{_shown(side, inferred.columns)}]",
        )
    return inferred.schema_id


def _found(format_: FormatInfo, side: Side, topic: str, registry: SchemaRegistry) -> tuple[int, RegistrySchema]:
    given = format_.property(SCHEMA_ID)
    try:
        if given is not None:
            return int(given), registry.schema(int(given))
        latest = registry.latest(subject_of(topic, side))
    except SchemaRegistryError as error:
        if error.condition != "SCHEMA_NOT_FOUND":
            raise
        which = f"Subject: {subject_of(topic, side)}" if given is None else f"Schema id: {given}"
        raise StatementError(
            "SCHEMA_NOT_FOUND",
            f"Schema for message {side}s on topic '{topic}' does not exist in the Schema Registry.\n{which}\n"
            "Check the topic's name, that its messages were written with this registry, and that the user may read "
            "the subject; or give the columns in the statement",
        ) from error
    return latest.id, latest.schema


def _type(format_: FormatInfo, schema: RegistrySchema, registry: SchemaRegistry) -> sql.SqlType | None:
    match schema.kind:
        case "AVRO":
            return type_of_avro(schema, registry)
        case "JSON":
            return type_of_json(schema, registry)
        case "PROTOBUF":
            return type_of_protobuf(schema, registry, format_.property(FULL_SCHEMA_NAME))


def _upper_cased(type_: sql.SqlType) -> sql.SqlType:
    match type_:
        case sql.StructType(fields):
            struct = sql.StructType(tuple((name.upper(), _upper_cased(each)) for name, each in fields))
            if struct.repeated:
                raise StatementError(
                    "DUPLICATE_FIELD",
                    f"Fields of a record in the schema have one name in SQL: {struct.repeated}. Give the columns in "
                    "the statement, with names in backquotes where their case counts",
                )
            return struct
        case sql.ArrayType(item):
            return sql.ArrayType(_upper_cased(item))
        case sql.MapType(key, value):
            return sql.MapType(key, _upper_cased(value))
    return type_


def _shown(side: Side, columns: Sequence[Column]) -> str:
    suffix = " KEY" if side == "key" else ""
    return ", ".join(f"{sql.quoted_name(column.name)} {column.type}{suffix}" for column in columns)
