"""Values of Connect as JSON and back: a function for each schema, made once."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import decimal_from_bytes, decoder, encoder, scale_of, unscaled_bytes
from hayase.connect.numbers import shortest_float32, to_float32
from hayase.connect.schema import DECIMAL_NAME, ConnectSchema, SchemaType

Convert = Callable[[Any], Any]
_CLASSES: Mapping[SchemaType, tuple[type, ...]] = {
    SchemaType.BOOLEAN: (bool,),
    SchemaType.STRING: (str,),
    SchemaType.BYTES: (bytes, bytearray, memoryview),
}
_INTEGERS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}


class JsonValues:
    """Makes the functions between values and JSON.

    Args:
        numeric_decimals: decimals are JSON numbers instead of the base64 of their digits.
        replace_null: an absent value becomes the default of its schema.
    """

    def __init__(self, *, numeric_decimals: bool = False, replace_null: bool = True) -> None:
        self._numeric = numeric_decimals
        self._replace_null = replace_null
        self._writers: dict[int, tuple[ConnectSchema, Convert]] = {}
        self._readers: dict[int, tuple[ConnectSchema, Convert]] = {}

    def writer(self, schema: ConnectSchema) -> Convert:
        """What turns a value of the schema into JSON; raises `DataError` for a value that does not fit."""
        found = self._writers.get(id(schema))
        if found is None:
            found = self._writers[id(schema)] = (schema, self._make_writer(schema))
        return found[1]

    def reader(self, schema: ConnectSchema) -> Convert:
        """What turns JSON into a value of the schema; raises `DataError`."""
        found = self._readers.get(id(schema))
        if found is None:
            found = self._readers[id(schema)] = (schema, self._make_reader(schema))
        return found[1]

    def write_default(self, schema: ConnectSchema) -> object:
        """The default of a schema as JSON."""
        return self.writer(schema)(schema.default)

    def read_default(self, schema: ConnectSchema, value: object) -> object:
        """JSON as a default of a schema."""
        return self.reader(schema)(value)

    def _make_writer(self, schema: ConnectSchema) -> Convert:
        inner = self._inner_writer(schema)
        default = None
        if schema.default is not None and self._replace_null:
            default = inner(schema.default)
        if default is not None:
            return lambda value: default if value is None else inner(value)
        if schema.optional:
            return lambda value: None if value is None else inner(value)
        return lambda value: inner(_not_null(value))

    def _inner_writer(self, schema: ConnectSchema) -> Convert:
        if schema.name == DECIMAL_NAME and self._numeric:
            return _numeric_writer(scale_of(schema))
        logical = encoder(schema)
        if logical is not None:
            return logical
        kind = schema.type
        if kind in _INTEGERS:
            return _integer_writer(schema)
        if kind is SchemaType.FLOAT32:
            return _float32_json
        if kind is SchemaType.FLOAT64:
            return _float64_json
        if kind is SchemaType.ARRAY:
            item = self._part(schema.value_schema, self.writer)
            return lambda value: [item(each) for each in _of(value, list, schema)]
        if kind is SchemaType.MAP:
            return self._map_writer(schema)
        if kind is SchemaType.STRUCT:
            return self._struct_writer(schema)
        allowed = _CLASSES[kind]
        return lambda value: _of(value, allowed, schema)

    def _map_writer(self, schema: ConnectSchema) -> Convert:
        key, item = self._part(schema.key_schema, self.writer), self._part(schema.value_schema, self.writer)
        if schema.key_schema is not None and schema.key_schema.type is SchemaType.STRING:
            return lambda value: {str(key(name)): item(each) for name, each in _of(value, dict, schema).items()}
        return lambda value: [[key(name), item(each)] for name, each in _of(value, dict, schema).items()]

    def _struct_writer(self, schema: ConnectSchema) -> Convert:
        fields = [(field.name, self.writer(field.schema)) for field in schema.fields]
        names = frozenset(name for name, _ in fields)

        def write(value: object) -> dict[str, object]:
            given = _of(value, dict, schema)
            if not names.issuperset(given):
                raise DataError("INVALID_VALUE", f"Mismatching schema: no field {sorted(given.keys() - names)[0]!r}")
            get = given.get
            try:
                return {name: convert(get(name)) for name, convert in fields}
            except DataError as error:
                raise _in_field(error, fields, get) from error

        return write

    def _make_reader(self, schema: ConnectSchema) -> Convert:
        inner = self._inner_reader(schema)
        if schema.default is not None and self._replace_null:
            return lambda value: schema.default if value is None else inner(value)
        if schema.optional:
            return lambda value: None if value is None else inner(value)

        def read(value: object) -> object:
            if value is None:
                raise DataError("INVALID_VALUE", f"Invalid null value for required {schema.type.name} field")
            return inner(value)

        return read

    def _inner_reader(self, schema: ConnectSchema) -> Convert:
        if schema.name == DECIMAL_NAME:
            return _decimal_reader(scale_of(schema))
        physical = self._physical_reader(schema)
        logical = decoder(schema)
        return physical if logical is None else lambda value: logical(physical(value))

    def _physical_reader(self, schema: ConnectSchema) -> Convert:
        kind = schema.type
        if kind in _INTEGERS:
            return _integer_reader(schema)
        if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
            return lambda value: _float_from_json(value, schema)
        if kind is SchemaType.BYTES:
            return _bytes_from_json
        if kind is SchemaType.ARRAY:
            item = self._part(schema.value_schema, self.reader)
            return lambda value: [item(each) for each in _of(value, list, schema)]
        if kind is SchemaType.MAP:
            return self._map_reader(schema)
        if kind is SchemaType.STRUCT:
            fields = [(field.name, self.reader(field.schema)) for field in schema.fields]

            def read(value: object) -> dict[str, object]:
                if not isinstance(value, dict):
                    raise DataError(
                        "INVALID_VALUE", f"Structs should be encoded as JSON objects, but found {_json_type(value)}"
                    )
                get = value.get
                try:
                    return {name: convert(get(name)) for name, convert in fields}
                except DataError as error:
                    raise _in_field(error, fields, get) from error

            return read
        return lambda value: _of(value, bool if kind is SchemaType.BOOLEAN else str, schema)

    def _map_reader(self, schema: ConnectSchema) -> Convert:
        key, item = self._part(schema.key_schema, self.reader), self._part(schema.value_schema, self.reader)
        if schema.key_schema is None or schema.key_schema.type is SchemaType.STRING:

            def read(value: object) -> dict[object, object]:
                if not isinstance(value, dict):
                    what = "Maps with string fields should be encoded as JSON objects"
                    raise DataError("INVALID_VALUE", f"{what}, but found {_json_type(value)}")
                return {name: item(each) for name, each in value.items()}

            return read

        def read_pairs(value: object) -> dict[object, object]:
            what = "Maps with non-string fields should be encoded as JSON array of tuples"
            if not isinstance(value, list) or not all(isinstance(each, list) and len(each) == 2 for each in value):
                raise DataError("INVALID_VALUE", f"{what}, but found {_json_type(value)}")
            return {key(name): item(each) for name, each in value}

        return read_pairs

    def _part(self, schema: ConnectSchema | None, make: Callable[[ConnectSchema], Convert]) -> Convert:
        if schema is not None:
            return make(schema)
        return plain_to_json if make == self.writer else _same


def plain_to_json(value: object) -> object:
    """A value without a schema as JSON; raises `DataError` for what has no form in JSON."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return _float64_json(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return [plain_to_json(each) for each in value]
    if isinstance(value, dict):
        if all(isinstance(name, str) for name in value):
            return {name: plain_to_json(each) for name, each in value.items()}
        return [[plain_to_json(name), plain_to_json(each)] for name, each in value.items()]
    raise DataError(
        "INVALID_VALUE", f"a value of type {type(value).__name__} without a schema does not have corresponding JSON"
    )


def _same(value: object) -> object:
    return value


def _not_null(value: object) -> object:
    if value is None:
        message = "Conversion error: null value for field that is required and has no default value"
        raise DataError("INVALID_VALUE", message)
    return value


def _in_field(error: DataError, fields: list[tuple[str, Convert]], get: Callable[[str], object]) -> DataError:
    """The error with the name of the field that it is about."""
    if "field" in error.context:
        return error
    for name, convert in fields:
        try:
            convert(get(name))
        except DataError:
            return DataError(error.condition, error.message, field=name)
    return error


def _of(value: object, kind: type | tuple[type, ...], schema: ConnectSchema) -> Any:
    if not isinstance(value, kind):
        raise DataError("INVALID_VALUE", f"Invalid type for {schema.type.name}: {type(value).__name__}")
    return value


def _decimal(value: object) -> Decimal:
    if not isinstance(value, Decimal):
        raise DataError("INVALID_VALUE", f"Invalid type for Decimal, expected Decimal but was {type(value).__name__}")
    return value


def _numeric_writer(scale: int) -> Convert:
    def write(value: object) -> Decimal:
        number = _decimal(value)
        unscaled_bytes(number, scale)  # checks the scale
        return number

    return write


def _integer_writer(schema: ConnectSchema) -> Convert:
    bound = 1 << (_INTEGERS[schema.type] - 1)

    def write(value: object) -> int:
        if type(value) is not int or not -bound <= value < bound:
            raise DataError(
                "INVALID_VALUE", f"Invalid type for {schema.type.name}: {type(value).__name__} {value!r:.40}"
            )
        return value

    return write


def _integer_reader(schema: ConnectSchema) -> Convert:
    bound = 1 << (_INTEGERS[schema.type] - 1)

    def read(value: object) -> int:
        # As Jackson does: a fraction is cut off, what is too large keeps its low bits.
        if isinstance(value, (float, Decimal)) and math.isfinite(value):
            value = int(value)
        if type(value) is not int:
            raise DataError("INVALID_VALUE", f"Invalid type for {schema.type.name}: {_json_type(value)}")
        return value if -bound <= value < bound else (value + bound) % (2 * bound) - bound

    return read


def _float32_json(value: object) -> object:
    if not isinstance(value, float):
        raise DataError("INVALID_VALUE", f"Invalid type for FLOAT32: {type(value).__name__}")
    if not math.isfinite(value):
        return _non_finite(value)
    return shortest_float32(value)


def _float64_json(value: object) -> object:
    if not isinstance(value, float):
        raise DataError("INVALID_VALUE", f"Invalid type for FLOAT64: {type(value).__name__}")
    return value if math.isfinite(value) else _non_finite(value)


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _float_from_json(value: object, schema: ConnectSchema) -> float:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        number = float(value)
        return to_float32(number) if schema.type is SchemaType.FLOAT32 else number
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(str(value))
    raise DataError("INVALID_VALUE", f"Invalid type for {schema.type.name}: {_json_type(value)}")


def _bytes_from_json(value: object) -> bytes:
    if not isinstance(value, str):
        raise DataError("INVALID_VALUE", f"Invalid bytes field: {_json_type(value)} instead of base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise DataError("INVALID_VALUE", f"Invalid bytes field: {error}") from error


def _decimal_reader(scale: int) -> Convert:
    def read(value: object) -> Decimal:
        if isinstance(value, str):
            return decimal_from_bytes(_bytes_from_json(value), scale)
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise DataError("INVALID_VALUE", f"Invalid type for Decimal: {_json_type(value)}")
        number = Decimal(value)
        # A number in JSON may have lost zeros at its end, but no other digits.
        exact = number.quantize(Decimal((0, (1,), -scale))) if number.adjusted() < 28 - scale else number.scaleb(0)
        return exact if exact == number else number

    return read


def _json_type(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "BOOLEAN"
    names = {int: "NUMBER", float: "NUMBER", Decimal: "NUMBER", str: "STRING", list: "ARRAY", dict: "OBJECT"}
    return names.get(type(value), type(value).__name__)
