"""The JSON Schema converter with a schema registry: Confluent's `JsonSchemaConverter`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.connect.converters.json_columns import column_reader
from hayase.connect.converters.json_schema_documents import DocumentReader, document_of
from hayase.connect.converters.json_values import Convert, plain_to_json
from hayase.connect.converters.physical_values import EntryValues
from hayase.connect.converters.registry_converter import (
    ReadValues,
    RegistryConverter,
    payload_of,
    registry_config,
)
from hayase.connect.exceptions import DataError
from hayase.connect.schema import ConnectSchema, SchemaAndValue
from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.registry import RegistrySchema

_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
_decode_exactly = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(slots=True)
class JsonSchemaWriter:
    """Writes values of one schema into one topic."""

    serde: JsonSchemaSerde
    convert: Convert


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads values of one schema; without one they stay as they are. `exactly`: numbers keep all their digits."""

    schema: ConnectSchema | None
    values: EntryValues
    convert: Convert | None
    exactly: bool


class JsonSchemaConverter(RegistryConverter[JsonSchemaWriter]):
    """JSON in Confluent's wire format; the JSON Schema of each record is a version of the topic's subject.

    Values are not checked against the schema when they are read, as with Confluent's converter.
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return (
            registry_config()
            .define(
                "decimal.format",
                ConfigType.STRING,
                "BASE64",
                one_of("BASE64", "NUMERIC", ignore_case=True),
                Importance.LOW,
                "How decimals are written: as BASE64 of their digits, or as a NUMERIC literal. Both can be read.",
            )
            .define(
                "use.optional.for.nonrequired",
                ConfigType.BOOLEAN,
                False,
                importance=Importance.LOW,
                documentation="Whether properties that a schema does not require may be absent.",
            )
        )

    def setup(self, config: TypedConfig) -> None:
        """See RegistryConverter."""
        self._numeric = config.string("decimal.format").upper() == "NUMERIC"
        self._optional = config.bool("use.optional.for.nonrequired")
        self._serde = JsonSchemaSerde(None, self.registry)

    def make_writer(self, topic: str, schema: ConnectSchema | None) -> JsonSchemaWriter:
        """See RegistryConverter."""
        if schema is None:
            document: dict[str, object] = {}
            convert: Convert = plain_to_json
        else:
            values = EntryValues(numeric_decimals=self._numeric)
            document = document_of(schema, lambda each: json.loads(_encode(values.write_default(each))))
            convert = values.writer(schema)
        serde = JsonSchemaSerde(document, self.registry, **self.options).for_topic(topic, self.side, {})
        return JsonSchemaWriter(serde, convert)

    def write(self, writer: JsonSchemaWriter, value: object) -> bytes:
        """See RegistryConverter."""
        payload = _encode(writer.convert(value))
        return writer.serde.written_head() + payload

    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """See RegistryConverter."""
        reader = self._reader_of(data)
        value = _decoded(data, exactly=reader.exactly)
        return SchemaAndValue(reader.schema, value if reader.convert is None else reader.convert(value))

    def read_values(self, topic: str, data: Sequence[bytes]) -> ReadValues | None:
        """See RegistryConverter."""
        reader = self._reader_of(data[0])
        if reader.schema is None:
            return None
        values = [_decoded(each, exactly=reader.exactly) for each in data]
        return ReadValues(values, reader.schema, lambda schema: column_reader(reader.values, schema))

    def _reader_of(self, data: bytes) -> _Reader:
        serde = self._serde
        written = serde.written_schema(serde.schema_id(data))
        key = ("json schema of connect", written, self._optional)
        return serde.made_of(written, key, lambda: self._reader(written))

    def _reader(self, written: RegistrySchema) -> _Reader:
        if written.references:
            raise DataError("INVALID_SCHEMA", "a JSON Schema that refers to other subjects; Connect needs it in one")
        document, values = json.loads(written.text), EntryValues()
        if document in ({}, True):
            return _Reader(None, values, None, False)
        schema = DocumentReader(document, values.read_default, optional_unless_required=self._optional).schema()
        return _Reader(schema, values, values.reader(schema), "connect.data.Decimal" in written.text)


def _decoded(data: bytes, *, exactly: bool) -> Any:
    try:
        return (_decode_exactly if exactly else _decode)(payload_of(data))
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError("INVALID_JSON", f"the bytes behind the schema id are no JSON: {error}") from error
