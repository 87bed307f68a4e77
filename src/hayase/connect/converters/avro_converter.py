"""The Avro converter with a schema registry: Confluent's `AvroConverter`."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.converters.avro_schemas import UNION_NAME, AvroJson, AvroReaderSchema, AvroWriterSchema
from hayase.connect.converters.json_columns import column_reader
from hayase.connect.converters.json_values import Convert
from hayase.connect.converters.physical_values import PhysicalValues
from hayase.connect.converters.registry_converter import (
    ReadValues,
    RegistryConverter,
    payload_of,
    registry_config,
)
from hayase.connect.exceptions import DataError
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    FLOAT64_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    ConnectSchema,
    SchemaAndValue,
    SchemaType,
)
from hayase.serde.avro_schema import AvroSchema
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.bare import READ_ERRORS


@dataclass(slots=True)
class AvroWriter:
    """Writes values of one schema into one topic.

    Attributes:
        serde: finds the id of the schema.
        convert: makes what fastavro takes.
        parsed: the schema for fastavro, without logical types; made with the first value, when the registry is asked.
    """

    serde: AvroSerde
    convert: Convert
    head: bytes = b""
    parsed: AvroJson = None
    raw_bytes: bool = False


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values that were written by one schema."""

    parsed: AvroJson
    schema: ConnectSchema
    values: AvroValues
    convert: Convert
    raw_bytes: bool
    names_all: bool
    """Whether each record in a union comes with its name, as a map beside it looks alike."""


_PLAIN: tuple[tuple[type, ConnectSchema], ...] = (
    (bool, BOOLEAN_SCHEMA),
    (int, INT64_SCHEMA),
    (float, FLOAT64_SCHEMA),
    (str, STRING_SCHEMA),
    (bytes, BYTES_SCHEMA),
)


class AvroConverter(RegistryConverter[AvroWriter]):
    """Avro in Confluent's wire format; the schema of each record is registered as a version of the topic's subject.

    Schemas with other types than Connect's are read as well: an enum is text, `fixed` is bytes, a union of several
    types is a struct with one field for each, `timestamp-micros` and its like are the numbers that they are stored as.
    A schema that holds itself is refused.

    Without a schema, only truth values, numbers, text and bytes can be written.
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return registry_config().define(
            "connect.meta.data",
            ConfigType.BOOLEAN,
            True,
            importance=Importance.LOW,
            documentation="Whether names, versions and parameters of Connect's schemas are written into Avro's.",
        )

    def setup(self, config: TypedConfig) -> None:
        """See RegistryConverter."""
        self._meta = config.bool("connect.meta.data")
        self._serde = AvroSerde(None, self.registry)

    def make_writer(self, topic: str, schema: ConnectSchema | None) -> AvroWriter:
        """See RegistryConverter."""
        values = AvroValues()
        if schema is None:
            raise DataError("INVALID_SCHEMA", "Avro needs a schema")
        definition = AvroWriterSchema(lambda each: avro_json(values.write_default(each)), connect_meta_data=self._meta)
        text = json.dumps(definition.of(schema))
        serde = AvroSerde(text, self.registry, **self.options).for_topic(topic, self.side, {})
        return AvroWriter(serde, values.writer(schema))

    def from_connect_data(self, topic: str, headers: Any, schema: ConnectSchema | None, value: object) -> bytes | None:
        """See RegistryConverter; the schema of a value without one is that of its Python type."""
        if schema is None and value is not None:
            schema = next((found for kind, found in _PLAIN if isinstance(value, kind)), None)
            if schema is None:
                raise DataError(
                    "INVALID_SCHEMA", f"a value of type {type(value).__name__} without a schema cannot be Avro"
                )
        return super().from_connect_data(topic, headers, schema, value)

    def write(self, writer: AvroWriter, value: object) -> bytes:
        """See RegistryConverter."""
        from fastavro import schemaless_writer

        if writer.parsed is None:
            head, schema = writer.serde.writing_by()
            writer.parsed, writer.raw_bytes = physical(schema), schema.raw_bytes
            writer.head = head
        given = writer.convert(value)
        if writer.raw_bytes:
            whole: bytes = writer.head + given
            return whole
        target = BytesIO()
        try:
            schemaless_writer(target, writer.parsed, given)
        except READ_ERRORS as error:  # fastavro has no common one for values that do not fit
            raise DataError("INVALID_VALUE", f"the value does not fit the Avro schema: {error!r}") from error
        return writer.head + target.getvalue()

    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """See RegistryConverter."""
        reader, by = self._reader_of(data)
        payload = payload_of(data)
        if reader.raw_bytes:
            return SchemaAndValue(reader.schema, payload)
        return SchemaAndValue(reader.schema, reader.convert(self._stored(reader, by, payload)))

    def read_values(self, topic: str, data: Sequence[bytes]) -> ReadValues | None:
        """See RegistryConverter."""
        reader, by = self._reader_of(data[0])
        if reader.schema.name == UNION_NAME:
            return None
        if reader.raw_bytes:
            return ReadValues(list(map(payload_of, data)), reader.schema, lambda _: lambda column: column)
        values = [self._stored(reader, by, payload_of(each)) for each in data]
        return ReadValues(values, reader.schema, lambda schema: column_reader(reader.values, schema))

    def _reader_of(self, data: bytes) -> tuple[_Reader, AvroSchema]:
        serde = self._serde
        schema_id = serde.schema_id(data)
        written, by = serde.written_schema(schema_id), serde.writer(schema_id)
        return serde.made_of(written, ("avro of connect", written), lambda: _reader(by, written.text)), by

    def _stored(self, reader: _Reader, by: AvroSchema, payload: bytes) -> object:
        """What fastavro reads."""
        from fastavro import schemaless_reader

        try:
            if by.check is not None:
                by.check(payload, 0, self._serde.empty_items_max)
            alone = not reader.names_all
            return schemaless_reader(
                BytesIO(payload), reader.parsed, None, return_record_name=True, return_record_name_override=alone
            )
        except READ_ERRORS as error:  # fastavro has no common one for bytes that are no value
            raise DataError("INVALID_VALUE", f"the bytes are no value of their Avro schema: {error!r}") from error


def _reader(written: AvroSchema, text: str) -> _Reader:
    values = AvroValues()
    # What is parsed of a single primitive is its type alone, without what Connect has written beside it.
    definition = json.loads(text) if isinstance(written.parsed, str) else written.parsed
    schema = AvroReaderSchema(values.read_default).of(definition)
    names_all = _mixes_maps_and_records(written.parsed)
    return _Reader(physical(written), schema, values, values.reader(schema), written.raw_bytes, names_all)


def _mixes_maps_and_records(definition: AvroJson) -> bool:
    """Whether a union has maps and records, or a record that is named only."""
    if isinstance(definition, list):
        maps = [each for each in definition if isinstance(each, dict) and each["type"] == "map"]
        mixed = len(definition) - definition.count("null") - len(maps) > 0
        return (bool(maps) and mixed) or any(map(_mixes_maps_and_records, definition))
    if not isinstance(definition, dict):
        return False
    inner = [definition.get(name) for name in ("type", "items", "values")]
    inner += [field["type"] for field in definition.get("fields", ())]
    return any(map(_mixes_maps_and_records, inner))


def physical(schema: AvroSchema) -> AvroJson:
    """The schema without logical types, so that fastavro gives and takes what values are stored as."""
    import fastavro

    def plain(definition: AvroJson) -> AvroJson:
        if isinstance(definition, list):
            return [plain(each) for each in definition]
        if not isinstance(definition, dict):
            return definition
        kept = {
            name: each
            for name, each in definition.items()
            if name != "logicalType" and not name.startswith(("__", "connect.")) and name != "default"
        }
        for inner in ("type", "items", "values"):
            if isinstance(kept.get(inner), (dict, list)):
                kept[inner] = plain(kept[inner])
        if "fields" in kept:
            kept["fields"] = [plain(field) for field in kept["fields"]]
        return kept

    return fastavro.parse_schema(plain(copy.deepcopy(schema.parsed)))


def avro_json(value: object) -> object:
    """A value as the JSON of a default: bytes are text of one character for each byte."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {name: avro_json(each) for name, each in value.items()}
    return [avro_json(each) for each in value] if isinstance(value, list) else value


class AvroValues(PhysicalValues):
    """Values as fastavro takes them; a union of several types is a struct with one field that is not null."""

    def read_default(self, schema: ConnectSchema, value: object) -> object:
        """A default value in Avro's JSON."""
        return self.reader(schema)(_bytes_of_default(schema, value))

    def _inner_writer(self, schema: ConnectSchema) -> Convert:
        if schema.type is SchemaType.STRUCT and schema.name == UNION_NAME:
            inner = super()._inner_writer(schema)
            return lambda value: next((each for each in inner(value).values() if each is not None), None)
        return super()._inner_writer(schema)

    def _physical_reader(self, schema: ConnectSchema) -> Convert:
        if schema.type is SchemaType.STRUCT and schema.name == UNION_NAME:
            return self._union_reader(schema)
        inner = super()._physical_reader(schema)
        # A record in a union comes with its name.
        return lambda value: inner(value[1] if type(value) is tuple else value)

    def _union_reader(self, schema: ConnectSchema) -> Convert:
        names = [field.name for field in schema.fields]
        readers = [(field.name, field.schema, self.reader(field.schema)) for field in schema.fields]
        # Beside a map records come with their names, so what has none is the map.
        readers.sort(key=lambda each: each[1].type is SchemaType.STRUCT)

        def read(value: object) -> dict[str, object]:
            name = value[0].rpartition(".")[2] if type(value) is tuple else None
            for field, field_schema, convert in readers:
                if name == field or (name is None and _fits(field_schema, value)):
                    return {each: convert(value) if each == field else None for each in names}
            raise DataError("INVALID_VALUE", f"no type of the union has a value of type {type(value).__name__}")

        return read


_STORED: dict[SchemaType, type | tuple[type, ...]] = {
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: str,
    SchemaType.BYTES: bytes,
    SchemaType.FLOAT32: float,
    SchemaType.FLOAT64: float,
    SchemaType.ARRAY: list,
    SchemaType.MAP: (dict, list),
    SchemaType.STRUCT: dict,
}


def _fits(schema: ConnectSchema, value: object) -> bool:
    stored = _STORED.get(schema.type)
    return type(value) is int if stored is None else isinstance(value, stored)


def _bytes_of_default(schema: ConnectSchema, value: object) -> object:
    """Avro's JSON as what fastavro reads: text of a byte a character is bytes, a whole number may be a float."""
    if value is None:
        return None
    if schema.type is SchemaType.BYTES and isinstance(value, str):
        return value.encode("latin-1")
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64) and isinstance(value, (int, str)):
        return float(value)
    if schema.type is SchemaType.STRUCT and isinstance(value, dict):
        return {field.name: _bytes_of_default(field.schema, value.get(field.name)) for field in schema.fields}
    if schema.value_schema is not None and isinstance(value, list):
        return [_bytes_of_default(schema.value_schema, each) for each in value]
    return value
