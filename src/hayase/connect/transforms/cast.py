"""`Cast`: fields, or the whole key or value, become another type."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import math
from decimal import Decimal

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType, invalid
from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import encoder
from hayase.connect.model import ConnectRecord
from hayase.connect.numbers import to_float32
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.transforms.base import FieldTransform, SchemaCache, class_of, copied_basics, with_replace_null
from hayase.connect.values import plain_text, temporal_text
from hayase.core.errors import ConfigError
from hayase.sql.types.java_numbers import floating_number, whole_number, wrapped

_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_FLOATS = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_OUTPUT = (*_BITS, *_FLOATS, SchemaType.BOOLEAN, SchemaType.STRING)
_INPUT = (*_OUTPUT, SchemaType.BYTES)


def _parse_spec(mappings: list[str]) -> dict[str | None, SchemaType]:
    """Types by field; under `None` the type of the whole."""
    casts: dict[str | None, SchemaType] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        if len(parts) > 2:
            raise invalid("spec", mappings, f"Invalid rename mapping: {mapping}")
        name = parts[-1].strip()
        kind = {each.name: each for each in SchemaType}.get(name.upper())
        if kind is None:
            raise ConfigError("INVALID_SETTING", f"Invalid type found in casting spec: {name}", setting="spec")
        if kind not in _OUTPUT:
            allowed = ", ".join(each.name for each in _OUTPUT)
            raise ConfigError(
                "INVALID_SETTING",
                f"Cast transformation does not support casting to {kind.name}; supported types are [{allowed}]",
                setting="spec",
            )
        casts[parts[0].strip() if len(parts) == 2 else None] = kind
    if None in casts and len(mappings) > 1:
        raise ConfigError(
            "INVALID_SETTING",
            "Cast transformations that specify a type to cast the entire value to may ony specify a single cast in "
            "their spec",
            setting="spec",
        )
    return casts


def _check_spec(name: str, value: object) -> None:
    if not isinstance(value, list) or not value:
        raise ConfigError("INVALID_SETTING", "Must specify at least one field to cast.", setting=name)
    _parse_spec(value)


class Cast(FieldTransform):
    """Casts fields, or the whole key or value, to a type; bytes become text in base64.

    Example:
        >>> from hayase.connect.model import SourceRecord
        >>> cast = CastValue()
        >>> cast.configure({"spec": "age:int32,tall:boolean"})
        >>> record = SourceRecord(source_partition={}, source_offset={}, topic="users", value={"age": "7", "tall": 0})
        >>> cast.apply(record).value
        {'age': 7, 'tall': False}
    """

    purpose = "cast types"
    config_def = with_replace_null(
        ConfigDef().define(
            "spec",
            ConfigType.LIST,
            validator=_check_spec,
            importance=Importance.HIGH,
            documentation="`field:type` for each field of a struct or map, or one type for the whole. Types: "
            "int8, int16, "
            "int32, int64, float32, float64, boolean, string. Bytes can become a string only, in base64.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._casts = _parse_spec(config.list("spec"))
        self._whole = self._casts.get(None)
        self._schemas = SchemaCache(self._updated_schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with the casts done; null stays null."""
        return record if self.value_of(record) is None else super().apply(record)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """Cast a value without a schema: its types are those of Python."""
        value = self.value_of(record)
        if self._whole is not None:
            return self.changed(record, None, _cast(None, value, self._whole))
        updated = dict(self.require_map(value))
        for name, kind in self._casts.items():
            assert name is not None, "a cast of the whole stands alone"
            updated[name] = _cast(None, updated.get(name), kind)
        return self.changed(record, None, updated)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """Cast a value with a schema."""
        updated_schema = self._schemas.get(schema)
        value = self.value_of(record)
        if self._whole is not None:
            return self.changed(record, updated_schema, _cast(schema, value, self._whole))
        given = self.require_struct(schema, value)
        updated = {}
        for name, _, field_schema in schema.fields:
            field = self.struct_field(given, name, field_schema)
            kind = self._casts.get(name)
            updated[name] = field if kind is None else _cast(field_schema, field, kind)
        return self.changed(record, updated_schema, updated)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        if self._whole is not None:
            # The name of a logical type says nothing about the new type.
            made = ConnectSchema(self._whole)
            default = _cast(schema, schema.default, self._whole)
        else:
            made = copied_basics(
                schema, {each.name: self._field_schema(each.name, each.schema) for each in schema.fields}
            )
            default = schema.default
        return dataclasses.replace(made, optional=schema.optional, default=default)

    def _field_schema(self, name: str, schema: ConnectSchema) -> ConnectSchema:
        kind = self._casts.get(name)
        if kind is None:
            return schema
        return ConnectSchema(kind, optional=schema.optional, default=_cast(schema, schema.default, kind))


class CastKey(Cast):
    """`Cast` of the key."""

    of_key = True


class CastValue(Cast):
    """`Cast` of the value."""

    of_key = False


def _kind_of(value: object) -> SchemaType | None:
    if isinstance(value, bool):
        return SchemaType.BOOLEAN
    kinds = {int: SchemaType.INT64, float: SchemaType.FLOAT64, str: SchemaType.STRING}
    kinds |= dict.fromkeys((bytes, bytearray, memoryview), SchemaType.BYTES)
    return kinds.get(type(value))


def _cast(schema: ConnectSchema | None, value: object, target: SchemaType) -> object:
    if value is None:
        return None
    source = _kind_of(value) if schema is None else schema.type
    if source is None:
        raise DataError(
            "INVALID_VALUE",
            f"Cast transformation was passed a value of type {class_of(value)} which is not supported by Connect's "
            "data API",
        )
    if source not in _INPUT:
        allowed = ", ".join(each.name for each in _INPUT)
        raise DataError(
            "INVALID_VALUE",
            f"Cast transformation does not support casting from {source.name}; supported types are [{allowed}]",
        )
    if schema is not None and target is not SchemaType.STRING and not isinstance(value, Decimal):
        encode = encoder(schema)
        value = value if encode is None else encode(value)
    try:
        if target in _BITS:
            return _integer(value, _BITS[target])
        if target in _FLOATS:
            number = _floating(value)
            return to_float32(number) if target is SchemaType.FLOAT32 else number
        return _boolean(value) if target is SchemaType.BOOLEAN else _string(schema, value)
    except (ValueError, OverflowError) as error:
        message = f"Value ({value!r:.80}) was out of range for requested data type"
        raise DataError("INVALID_VALUE", message) from error


def _integer(value: object, bits: int) -> int:
    if isinstance(value, str):
        return whole_number(value, bits)
    if isinstance(value, float):
        if not math.isfinite(value):
            number = 0 if math.isnan(value) else (1 << 63) - 1 if value > 0 else -(1 << 63)
        else:
            number = max(-(1 << 63), min(int(value), (1 << 63) - 1))
            if bits < 64:  # by way of 32 bits, which saturate too
                number = max(-(1 << 31), min(number, (1 << 31) - 1))
        return wrapped(number, bits)
    if isinstance(value, (int, Decimal)):
        return wrapped(int(value), bits)
    raise _unexpected(value)


def _floating(value: object) -> float:
    if isinstance(value, str):
        return floating_number(value)
    if isinstance(value, (int, float, Decimal)):
        return float(value)
    raise _unexpected(value)


def _boolean(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, (int, float, Decimal)):
        return value == value and int(max(-1e18, min(float(value), 1e18))) != 0  # noqa: PLR0124 - NaN is not itself
    raise _unexpected(value)


def _string(schema: ConnectSchema | None, value: object) -> str:
    if isinstance(value, (dt.date, dt.time)):
        return temporal_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return plain_text(value, schema)


def _unexpected(value: object) -> DataError:
    return DataError("INVALID_VALUE", f"Unexpected type in Cast transformation: {class_of(value)}")
