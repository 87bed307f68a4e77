"""The format AVRO: Confluent's wire format, written by the columns' schema or by one of the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Any

from hayase.serde.avro_schema import AvroSchema, inlined, load
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.bare import refuse
from hayase.serde.protocol import Side
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.sql.formats.avro_columns import DEFAULT_NAME, avro_schema
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FULL_SCHEMA_NAME, SCHEMA_ID, FormatInfo
from hayase.sql.formats.payload import PayloadCodec, fields_of
from hayase.sql.formats.record_values import reader, record_reader
from hayase.sql.types import sql_types as sql

_NUMBERS = ("date", "time-millis", "timestamp-millis")
_Write = Callable[[Any], Any]


class AvroPayload(PayloadCodec):
    """Records of the columns, or the only column's value.

    Args:
        format_: with the full name of the record, or the id of the schema to write by.
        columns: names and types.
        bare: the value is that of the only column.
        side: keys or values.
        topic: its name makes the subject.
        registry: where schemas are.

    Attributes:
        writing: writes by the columns' schema.
    """

    def __init__(
        self,
        format_: FormatInfo,
        columns: Sequence[Column],
        *,
        bare: bool,
        side: Side,
        topic: str,
        registry: SchemaRegistry,
    ) -> None:
        self._type = columns[0].type if bare else sql.StructType(fields_of(columns))
        self._read = reader(columns[0].type) if bare else record_reader(fields_of(columns))
        self._registry = registry
        self._reading = _NumericAvro(None, registry)
        schema_id = format_.property(SCHEMA_ID)
        self._schema_id = None if schema_id is None else int(schema_id)
        name = format_.property(FULL_SCHEMA_NAME) or DEFAULT_NAME
        own = avro_schema(columns, name, bare=bare) if schema_id is None else None
        self.writing = _NumericAvro(own, registry).for_topic(topic, side, {})
        self._by: tuple[bytes, AvroSchema, _Write | None] | None = None

    def write(self, value: Any) -> bytes:
        """The schema's id and the value; raises SerializationError, SchemaRegistryError."""
        if self._by is None:
            head, schema = self._found()
            self._by = (head, schema, _Form(schema).writer(self._type, schema.parsed))
        head, schema, write = self._by
        return head + self.writing.payload(value if write is None else write(value), schema)

    def _found(self) -> tuple[bytes, AvroSchema]:
        if self._schema_id is None:
            return self.writing.writing_by()
        return self.writing.head(self._schema_id), self.writing.writer(self._schema_id)

    @property
    def has_columns(self) -> bool:
        """Whether it writes by the columns' schema, not by one that was asked for, and that has a column form."""
        return self._schema_id is None and self.writing.columns is not None

    def by_writer(self, head: bytes) -> AvroSerde:
        """A serde with the schema of records that begin so; raises SerializationError, SchemaRegistryError."""
        schema = self._reading.written_schema(self._reading.schema_id(head))
        return _NumericAvro(schema.text, self._registry, references=schema.references)

    def read(self, data: bytes) -> Any:
        """What any schema of the registry wrote, as the columns; raises SerializationError, SchemaRegistryError."""
        value = self._reading.from_bytes(data)
        return None if value is None else self._read(value)


class _NumericAvro(AvroSerde):
    """Avro with dates and times as the numbers that they are written as, which are those of SQL.

    Values are not validated before they are written: rows have the types of their columns, and the encoder itself
    refuses what it cannot write. The validation of a union takes ten times as long as all the rest.
    """

    def _parsed(self, schema: RegistrySchema) -> AvroSchema:
        named = self._named(schema, {}) if schema.references else {}
        return AvroSchema(_numeric(inlined(load(schema.text), named)))

    def payload(self, value: object, schema: AvroSchema) -> bytes:
        from fastavro import schemaless_writer

        if schema.raw_bytes and isinstance(value, bytes):
            return value
        target = BytesIO()
        try:
            schemaless_writer(target, schema.parsed, value)
        except Exception as error:  # fastavro has no common one for values that do not fit
            raise refuse(self, value, f"Avro by the schema {schema.name} ({error})") from error
        return target.getvalue()

    def writer(self, schema_id: int) -> AvroSchema:
        schema = self.written_schema(schema_id)
        return self.made_of(schema, ("numeric avro", schema), lambda: self._parsed(schema))


def _numeric(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_numeric(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if key != "logicalType" or part not in _NUMBERS}
    for inner in ("type", "items", "values"):
        if inner in kept:
            kept[inner] = _numeric(kept[inner])
    if "fields" in kept:
        kept["fields"] = [_numeric(field) for field in kept["fields"]]
    return kept


class _Form:
    """How SQL values have to be given to the encoder of one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def writer(self, type_: sql.SqlType, node: Any) -> _Write | None:
        """What changes values of a type for a part of the schema; `None`: they are taken as they are."""
        if isinstance(node, list):
            branches = [branch for branch in node if self._schema.kind(branch) != "null"]
            return self.writer(type_, branches[0]) if len(branches) == 1 else None
        definition = self._schema.definition(node)
        kind = definition["type"]
        match type_:
            case sql.StructType(fields) if kind == "record":
                types = {field["name"]: field["type"] for field in definition["fields"]}
                inner = {name: self.writer(each, types[name]) for name, each in fields if name in types}
                defaults = [field["name"] for field in definition["fields"] if self._has_default(field)]
                return partial(_record_with_defaults, defaults, inner) if defaults else _optional(_record, inner)
            case sql.ArrayType(item) if kind == "array":
                return _optional(_array, {"": self.writer(item, definition["items"])})
            case sql.MapType(_, value) if kind == "map":
                return _optional(_map, {"": self.writer(value, definition["values"])})
            case sql.MapType(_, value) if kind == "array":
                return partial(_entries, self._entry_writer(value, definition["items"]))
        return None

    def _has_default(self, field: dict[str, Any]) -> bool:
        """Whether a field cannot be null and has a default in its place."""
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        return "default" in field and "null" not in map(self._schema.kind, branches)

    def _entry_writer(self, value: sql.SqlType, node: Any) -> _Write | None:
        fields = self._schema.definition(node)["fields"]
        return self.writer(value, next(field["type"] for field in fields if field["name"] == "value"))


def _optional(write: Callable[[dict[str, _Write], Any], Any], inner: dict[str, _Write | None]) -> _Write | None:
    needed = {name: each for name, each in inner.items() if each is not None}
    return partial(write, needed) if needed else None


def _record(writers: dict[str, _Write], value: Any) -> Any:
    changed = {name: write(value[name]) for name, write in writers.items() if value.get(name) is not None}
    return {**value, **changed}


def _record_with_defaults(defaults: list[str], writers: dict[str, _Write | None], value: Any) -> Any:
    """A record without the null fields that have a default."""
    return {
        name: item if item is None or writers.get(name) is None else writers[name](item)  # type: ignore[misc]
        for name, item in value.items()
        if item is not None or name not in defaults
    }


def _array(writers: dict[str, _Write], value: Any) -> Any:
    return [None if item is None else writers[""](item) for item in value]


def _map(writers: dict[str, _Write], value: Any) -> Any:
    return {key: None if item is None else writers[""](item) for key, item in value.items()}


def _entries(write: _Write | None, value: Any) -> Any:
    return [
        {"key": key, "value": item if write is None or item is None else write(item)} for key, item in value.items()
    ]
