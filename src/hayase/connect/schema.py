"""Schemas of Connect: types, logical types, and the check that a value fits.

A value of a schema is plain Python:

| type | value |
|---|---|
| `int8` … `int64` | `int` within its bounds |
| `float32`, `float64` | `float` |
| `boolean`, `string`, `bytes` | `bool`, `str`, `bytes` |
| `array`, `map` | `list`, `dict` |
| `struct` | `dict` from field names to values; an optional field may be left out |
| `Decimal`, `Date`, `Time`, `Timestamp` | `decimal.Decimal`, `date`, `time`, `datetime` with a time zone |
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from hayase.connect.exceptions import DataError


class SchemaType(StrEnum):
    """Types of values."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Whether it is neither array, map nor struct."""
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


class SchemaField(NamedTuple):
    """A field of a struct."""

    name: str
    position: int
    schema: ConnectSchema


class SchemaAndValue(NamedTuple):
    """A value with its schema; without one, the value says its types itself."""

    schema: ConnectSchema | None
    value: object


NO_VALUE = SchemaAndValue(None, None)


@dataclass(frozen=True)
class ConnectSchema:
    """A schema: immutable, compared by content.

    Attributes:
        type: of its values.
        optional: whether a value may be `None`.
        default: the value of a field that is absent; `None`: there is none.
        name: full name, as of a logical type or of a table's row.
        version: of the named type.
        doc: for people.
        parameters: of the named type, as the scale of a decimal.
        fields: of a struct.
        key_schema: of a map.
        value_schema: of an array or a map.
    """

    type: SchemaType
    optional: bool = False
    default: object = dataclasses.field(default=None, hash=False)
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    fields: tuple[SchemaField, ...] = ()
    key_schema: ConnectSchema | None = None
    value_schema: ConnectSchema | None = None

    @cached_property
    def fields_by_name(self) -> Mapping[str, SchemaField]:
        """The fields of a struct."""
        return {each.name: each for each in self.fields}

    def field(self, name: str) -> SchemaField | None:
        """A field of a struct, or `None`."""
        return self.fields_by_name.get(name)

    def as_optional(self, optional: bool = True) -> ConnectSchema:
        """The same, but values may be `None` (or may not)."""
        return self if self.optional == optional else dataclasses.replace(self, optional=optional)

    def with_default(self, default: object) -> ConnectSchema:
        """The same with a default, which must fit."""
        validate_value(self, default)
        return dataclasses.replace(self, default=default)

    def named(
        self,
        name: str | None,
        *,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> ConnectSchema:
        """The same under another name."""
        return dataclasses.replace(self, name=name, version=version, doc=doc, parameters=dict(parameters or {}))


INT8_SCHEMA = ConnectSchema(SchemaType.INT8)
INT16_SCHEMA = ConnectSchema(SchemaType.INT16)
INT32_SCHEMA = ConnectSchema(SchemaType.INT32)
INT64_SCHEMA = ConnectSchema(SchemaType.INT64)
FLOAT32_SCHEMA = ConnectSchema(SchemaType.FLOAT32)
FLOAT64_SCHEMA = ConnectSchema(SchemaType.FLOAT64)
BOOLEAN_SCHEMA = ConnectSchema(SchemaType.BOOLEAN)
STRING_SCHEMA = ConnectSchema(SchemaType.STRING)
BYTES_SCHEMA = ConnectSchema(SchemaType.BYTES)
OPTIONAL_INT8_SCHEMA = INT8_SCHEMA.as_optional()
OPTIONAL_INT16_SCHEMA = INT16_SCHEMA.as_optional()
OPTIONAL_INT32_SCHEMA = INT32_SCHEMA.as_optional()
OPTIONAL_INT64_SCHEMA = INT64_SCHEMA.as_optional()
OPTIONAL_FLOAT32_SCHEMA = FLOAT32_SCHEMA.as_optional()
OPTIONAL_FLOAT64_SCHEMA = FLOAT64_SCHEMA.as_optional()
OPTIONAL_BOOLEAN_SCHEMA = BOOLEAN_SCHEMA.as_optional()
OPTIONAL_STRING_SCHEMA = STRING_SCHEMA.as_optional()
OPTIONAL_BYTES_SCHEMA = BYTES_SCHEMA.as_optional()


def struct_schema(
    fields: Mapping[str, ConnectSchema] | Iterable[tuple[str, ConnectSchema]],
    *,
    name: str | None = None,
    version: int | None = None,
    optional: bool = False,
    doc: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> ConnectSchema:
    """A struct with these fields, in this order.

    Raises:
        DataError: `DUPLICATE_FIELD`.

    Example:
        >>> user = struct_schema({"id": INT64_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="shop.User")
        >>> validate_value(user, {"id": 7})
    """
    pairs = list(fields.items() if isinstance(fields, Mapping) else fields)
    names = [field_name for field_name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise DataError("DUPLICATE_FIELD", f"the field {twice!r} is given twice; each name is for one field")
    return ConnectSchema(
        SchemaType.STRUCT,
        optional=optional,
        name=name,
        version=version,
        doc=doc,
        parameters=dict(parameters or {}),
        fields=tuple(SchemaField(field_name, index, each) for index, (field_name, each) in enumerate(pairs)),
    )


def array_schema(value_schema: ConnectSchema, *, optional: bool = False) -> ConnectSchema:
    """An array of such values."""
    return ConnectSchema(SchemaType.ARRAY, optional=optional, value_schema=value_schema)


def map_schema(key_schema: ConnectSchema, value_schema: ConnectSchema, *, optional: bool = False) -> ConnectSchema:
    """A map from such keys to such values."""
    return ConnectSchema(SchemaType.MAP, optional=optional, key_schema=key_schema, value_schema=value_schema)


DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
SCALE = "scale"
DATE_SCHEMA = ConnectSchema(SchemaType.INT32, name=DATE_NAME, version=1)
TIME_SCHEMA = ConnectSchema(SchemaType.INT32, name=TIME_NAME, version=1)
TIMESTAMP_SCHEMA = ConnectSchema(SchemaType.INT64, name=TIMESTAMP_NAME, version=1)


def decimal_schema(scale: int, *, optional: bool = False) -> ConnectSchema:
    """Decimals with so many digits behind the point: bytes of the unscaled number, big-endian."""
    return ConnectSchema(
        SchemaType.BYTES, name=DECIMAL_NAME, version=1, optional=optional, parameters={SCALE: str(scale)}
    )


_BOUNDS = {
    SchemaType.INT8: 1 << 7,
    SchemaType.INT16: 1 << 15,
    SchemaType.INT32: 1 << 31,
    SchemaType.INT64: 1 << 63,
}
_CLASSES: Mapping[SchemaType, tuple[type, ...]] = {
    SchemaType.FLOAT32: (float,),
    SchemaType.FLOAT64: (float,),
    SchemaType.BOOLEAN: (bool,),
    SchemaType.STRING: (str,),
    SchemaType.BYTES: (bytes, bytearray, memoryview),
    SchemaType.ARRAY: (list, tuple),
    SchemaType.MAP: (dict,),
    SchemaType.STRUCT: (dict,),
}
LOGICAL_CLASSES: Mapping[str, type] = {
    DECIMAL_NAME: decimal.Decimal,
    DATE_NAME: dt.date,
    TIME_NAME: dt.time,
    TIMESTAMP_NAME: dt.datetime,
}
"""What values of Connect's logical types are in Python, by name of the schema."""


def validate_value(schema: ConnectSchema, value: object, field_name: str | None = None) -> None:
    """Check that a value fits its schema, with all that is in it.

    Raises:
        DataError: `INVALID_VALUE`: what was given, what the schema allows, at which field.
    """
    where = f' for field: "{field_name}"' if field_name is not None else ""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(
                "INVALID_VALUE",
                f"Invalid value: null used for required field{where[10:] or ''}, schema type: {schema.type.name}",
                field=field_name,
            )
        return
    if not _fits(schema, value):
        raise DataError(
            "INVALID_VALUE",
            f"Invalid value of class {type(value).__name__} for schema{f' {schema.name!r}' if schema.name else ''} "
            f"with type {schema.type.name}{where}",
            field=field_name,
        )
    _validate_parts(schema, value)


def _fits(schema: ConnectSchema, value: object) -> bool:
    logical = LOGICAL_CLASSES.get(schema.name) if schema.name is not None else None
    if logical is not None:
        return isinstance(value, logical) and (logical is not dt.date or type(value) is dt.date)
    bound = _BOUNDS.get(schema.type)
    if bound is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound
    return isinstance(value, _CLASSES[schema.type])


def _validate_parts(schema: ConnectSchema, value: object) -> None:
    if schema.type is SchemaType.STRUCT and isinstance(value, dict):
        for name, _, field_schema in schema.fields:
            validate_value(field_schema, value.get(name), name)
        if unknown := value.keys() - schema.fields_by_name.keys():
            raise DataError(
                "INVALID_VALUE",
                f"{sorted(unknown)[0]} is not a valid field name; the struct has {', '.join(schema.fields_by_name)}",
            )
    elif schema.type is SchemaType.ARRAY and schema.value_schema is not None and isinstance(value, (list, tuple)):
        for element in value:
            validate_value(schema.value_schema, element)
    elif schema.type is SchemaType.MAP and isinstance(value, dict):
        for key, element in value.items():
            if schema.key_schema is not None:
                validate_value(schema.key_schema, key)
            if schema.value_schema is not None:
                validate_value(schema.value_schema, element)
