"""Values of Connect as libraries of Avro and Protobuf take them: numbers, text, bytes, lists and dicts."""

from __future__ import annotations

from typing import Any

from hayase.connect.converters.json_values import Convert, JsonValues
from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import decoder, encoder
from hayase.connect.numbers import to_float32
from hayase.connect.schema import ConnectSchema, SchemaType


def has_text_keys(schema: ConnectSchema) -> bool:
    """Whether a map has keys that are text and never null: other maps are lists of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is SchemaType.STRING and not keys.optional


class EntryValues(JsonValues):
    """As JSON, but maps with other keys than text are lists of objects with `key` and `value`."""

    def _map_writer(self, schema: ConnectSchema) -> Convert:
        key, item = self._part(schema.key_schema, self.writer), self._part(schema.value_schema, self.writer)
        if has_text_keys(schema):
            return lambda value: {key(name): item(each) for name, each in _map(value).items()}
        return lambda value: [{"key": key(name), "value": item(each)} for name, each in _map(value).items()]

    def _map_reader(self, schema: ConnectSchema) -> Convert:
        key, item = self._part(schema.key_schema, self.reader), self._part(schema.value_schema, self.reader)
        if has_text_keys(schema):
            return lambda value: {key(name): item(each) for name, each in _map(value).items()}

        def read(value: object) -> dict[object, object]:
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                raise DataError("INVALID_VALUE", f"a map is a list of entries; it was given {type(value).__name__}")
            return {key(each.get("key")): item(each.get("value")) for each in value}

        return read


class PhysicalValues(EntryValues):
    """Logical types are what they are stored as: a date is its days, a decimal the bytes of its digits."""

    def _inner_writer(self, schema: ConnectSchema) -> Convert:
        if encoder(schema) is None and schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
            return lambda value: _float(value, schema)
        if encoder(schema) is None and schema.type is SchemaType.BYTES:
            return lambda value: _bytes(value, schema)
        return super()._inner_writer(schema)

    def _inner_reader(self, schema: ConnectSchema) -> Convert:
        physical = self._physical_reader(schema)
        logical = decoder(schema)
        return physical if logical is None else lambda value: logical(physical(value))

    def _physical_reader(self, schema: ConnectSchema) -> Convert:
        if schema.type is SchemaType.BYTES:
            return lambda value: _bytes(value, schema)
        if schema.type is SchemaType.FLOAT32:
            return lambda value: to_float32(_float(value, schema))
        if schema.type is SchemaType.FLOAT64:
            return lambda value: _float(value, schema)
        return super()._physical_reader(schema)


def _map(value: object) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DataError("INVALID_VALUE", f"Invalid type for MAP: {type(value).__name__}")
    return value


def _float(value: object, schema: ConnectSchema) -> float:
    if not isinstance(value, float):
        raise DataError("INVALID_VALUE", f"Invalid type for {schema.type.name}: {type(value).__name__}")
    return value


def _bytes(value: object, schema: ConnectSchema) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise DataError("INVALID_VALUE", f"Invalid type for {schema.type.name}: {type(value).__name__}")
    return bytes(value)
