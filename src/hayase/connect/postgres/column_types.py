"""Columns of PostgreSQL as Debezium maps them: a schema, and a function from PostgreSQL's text to the value."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import date_of, time_of, timestamp_of, unscaled_bytes
from hayase.connect.postgres.catalog import PostgresType, TypeRegistry
from hayase.connect.postgres.column_defaults import default_text
from hayase.connect.postgres.text_values import (
    DAY_US,
    days_of_text,
    microseconds_of_time,
    microseconds_of_timestamp,
    offset_of_text,
    parse_array,
    parse_hstore,
    parse_interval,
)
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaType,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)

Convert = Callable[[str], object]
_EXACT = Context(prec=100_000, Emin=-999_999, Emax=999_999)
_POSITIVE_INFINITY_US = 9_223_372_036_825_200_000
_NEGATIVE_INFINITY_US = -9_223_372_036_832_400_000
_INFINITIES = {"infinity": _POSITIVE_INFINITY_US, "-infinity": _NEGATIVE_INFINITY_US}
_DAYS_PER_MONTH = Fraction(1461, 48)  # 365.25 / 12


@dataclass(frozen=True, slots=True)
class TypeModes:
    """How types are mapped, by Debezium's settings.

    Attributes:
        decimals: `precise`, `double`, `string`.
        times: `adaptive`, `adaptive_time_microseconds`, `connect`.
        binaries: `bytes`, `base64`, `base64-url-safe`, `hex`.
        intervals: `numeric`, `string`.
        hstores: `json`, `map`.
        unknown: whether columns of unknown types are bytes, instead of left out.
        placeholder: what stands for a large value that an update left as it was.
    """

    decimals: str = "precise"
    times: str = "adaptive"
    binaries: str = "bytes"
    intervals: str = "numeric"
    hstores: str = "json"
    unknown: bool = False
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type.

    Attributes:
        schema: of its values, required.
        convert: from PostgreSQL's text; raises ValueError.
        fallback: what stands for a value that is required and not known, as in the old row of a delete.
        unavailable: what stands for a large value that an update left as it was.
        exact_text: whether the texts of a decimal have exactly the digits of its schema.
    """

    schema: ConnectSchema
    convert: Convert
    fallback: object
    unavailable: object
    exact_text: bool = False


def _named(schema: ConnectSchema, name: str, **parameters: str) -> ConnectSchema:
    return schema.named(name, version=1, parameters=parameters)


_JSON = _named(STRING_SCHEMA, "io.debezium.data.Json")
_UUID = _named(STRING_SCHEMA, "io.debezium.data.Uuid")
_XML = _named(STRING_SCHEMA, "io.debezium.data.Xml")
_TSVECTOR = _named(STRING_SCHEMA, "io.debezium.data.Tsvector")
_LTREE = _named(STRING_SCHEMA, "io.debezium.data.Ltree")
_DAYS = _named(INT32_SCHEMA, "io.debezium.time.Date")
_TIME_MS = _named(INT32_SCHEMA, "io.debezium.time.Time")
_TIME_US = _named(INT64_SCHEMA, "io.debezium.time.MicroTime")
_TIMESTAMP_MS = _named(INT64_SCHEMA, "io.debezium.time.Timestamp")
_TIMESTAMP_US = _named(INT64_SCHEMA, "io.debezium.time.MicroTimestamp")
ZONED_TIMESTAMP_NAME = "io.debezium.time.ZonedTimestamp"
_ZONED_TIMESTAMP = _named(STRING_SCHEMA, ZONED_TIMESTAMP_NAME)
_ZONED_TIME = _named(STRING_SCHEMA, "io.debezium.time.ZonedTime")
_MICRO_DURATION = _named(INT64_SCHEMA, "io.debezium.time.MicroDuration")
_INTERVAL = _named(STRING_SCHEMA, "io.debezium.time.Interval")
_POINT = struct_schema(
    {"x": FLOAT64_SCHEMA, "y": FLOAT64_SCHEMA, "wkb": OPTIONAL_BYTES_SCHEMA, "srid": OPTIONAL_INT32_SCHEMA},
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
_VARIABLE_DECIMAL = struct_schema(
    {"scale": INT32_SCHEMA, "value": BYTES_SCHEMA},
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
_STRINGS: Mapping[str, ConnectSchema] = {
    **dict.fromkeys(
        (
            "text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8", "int4range",
            "int8range", "numrange", "tsrange", "tstzrange", "daterange", "isbn",
        ),
        STRING_SCHEMA,
    ),
    "json": _JSON,
    "jsonb": _JSON,
    "uuid": _UUID,
    "xml": _XML,
    "tsvector": _TSVECTOR,
    "ltree": _LTREE,
}  # fmt: skip
_PLAIN: Mapping[str, tuple[ConnectSchema, Convert]] = {
    "bool": (BOOLEAN_SCHEMA, lambda text: text == "t"),
    "int2": (INT16_SCHEMA, int),
    "int4": (INT32_SCHEMA, int),
    "int8": (INT64_SCHEMA, int),
    "oid": (INT64_SCHEMA, int),
    "float4": (FLOAT32_SCHEMA, float),
    "float8": (FLOAT64_SCHEMA, float),
}
_ARRAYS_LEFT_OUT = ("money", "name", "interval", "varbit", "xml", "point", "refcursor")


class ColumnTypes:
    """Finds the mapping of a type.

    Args:
        registry: the types of the database.
        modes: how they are mapped.
    """

    def __init__(self, registry: TypeRegistry, modes: TypeModes) -> None:
        self._registry = registry
        self._modes = modes

    def find(self, oid: int, modifier: int) -> ColumnType | None:
        """The mapping of a type with its modifier; `None`: it has none, and the column is left out."""
        found = self._registry.get(oid)
        if found is None:
            return self._unknown()
        if found.kind == "d":
            return self.find(found.base, found.modifier if modifier < 0 else modifier)
        if found.element:
            return self._array(found, modifier)
        if found.kind == "e":
            schema = _named(STRING_SCHEMA, "io.debezium.data.Enum", allowed=",".join(found.labels))
            return self._column(schema, str)
        made = self._scalar(found, modifier)
        return self._unknown() if made is None else self._column(*made)

    def find_column(self, oid: int, modifier: int, default: str | None) -> ColumnType | None:
        """The mapping of a column, with its default in the schema where Debezium has it there.

        Args:
            oid: of the type.
            modifier: of the type.
            default: expression of the default; `None`: the column has none.
        """
        column, found = self.find(oid, modifier), self._registry.get(oid)
        if column is None or found is None or default is None:
            return column
        try:
            text = default_text(found.name, default, is_enum=found.kind == "e")
            if text is None or column.schema.type is SchemaType.STRUCT:
                return column
            if found.name == "numeric" and modifier >= 0:
                text = format(Decimal(text).quantize(Decimal(1).scaleb(-numeric_modifier(modifier)[1])), "f")
            value = column.convert(text)
        except (ValueError, ArithmeticError, DataError):  # an expression
            return column
        return dataclasses.replace(column, schema=column.schema.with_default(value), fallback=value)

    def _unknown(self) -> ColumnType | None:
        if not self._modes.unknown:
            return None
        schema, encode = self._binary()
        return self._column(schema, lambda text: encode(text.encode()))

    def _column(self, schema: ConnectSchema, convert: Convert) -> ColumnType:
        placeholder = self._modes.placeholder
        unavailable: object = None
        if schema.type is SchemaType.STRING:
            unavailable = placeholder
        elif schema.type is SchemaType.BYTES and schema.name is None:
            unavailable = placeholder.encode()
        elif schema.type is SchemaType.MAP:
            unavailable = {placeholder: placeholder}
        return ColumnType(schema, convert, _fallback(schema), unavailable, exact_text=convert is _finite)

    def _array(self, found: PostgresType, modifier: int) -> ColumnType | None:
        element_type = self._registry.get(found.element)
        if element_type is None or element_type.name in _ARRAYS_LEFT_OUT:
            return self._unknown()
        element = self.find(found.element, modifier)
        if element is None:
            return self._unknown()
        delimiter = ";" if element_type.name == "box" else ","
        convert = element.convert

        def read(text: str) -> object:
            return [None if each is None else convert(each) for each in parse_array(text, delimiter)]

        unavailable = [element.unavailable] if element.unavailable is not None else []
        return ColumnType(array_schema(element.schema.as_optional()), read, [], unavailable)

    def _scalar(self, found: PostgresType, modifier: int) -> tuple[ConnectSchema, Convert] | None:
        name = found.name
        if name in _PLAIN:
            return _PLAIN[name]
        if name in _STRINGS:
            return _STRINGS[name], str
        if name in ("date", "time", "timestamp"):
            return self._temporal(name, modifier)
        match name:
            case "numeric":
                return self._numeric(modifier)
            case "money":
                return self._money()
            case "bytea":
                schema, encode = self._binary()
                return schema, lambda text: encode(bytes.fromhex(text[2:]))
            case "timestamptz":
                digits = 6 if modifier < 0 else modifier
                return _ZONED_TIMESTAMP, lambda text: _zoned_timestamp(text, digits)
            case "timetz":
                return _ZONED_TIME, _zoned_time
            case "interval":
                if self._modes.intervals == "string":
                    return _INTERVAL, _interval_text
                return _MICRO_DURATION, _interval_microseconds
            case "bit" | "varbit":
                return _bits(modifier)
            case "point":
                return _POINT, _point
            case "hstore":
                if self._modes.hstores == "map":
                    return map_schema(STRING_SCHEMA, OPTIONAL_STRING_SCHEMA), parse_hstore
                return _JSON, lambda text: json.dumps(parse_hstore(text), ensure_ascii=False, separators=(",", ":"))
        return None

    def _binary(self) -> tuple[ConnectSchema, Callable[[bytes], object]]:
        match self._modes.binaries:
            case "base64":
                return STRING_SCHEMA, lambda data: base64.b64encode(data).decode()
            case "base64-url-safe":
                return STRING_SCHEMA, lambda data: base64.urlsafe_b64encode(data).decode()
            case "hex":
                return STRING_SCHEMA, lambda data: data.hex()
        return BYTES_SCHEMA, lambda data: data

    def _numeric(self, modifier: int) -> tuple[ConnectSchema, Convert]:
        if self._modes.decimals == "string":
            return STRING_SCHEMA, str
        if self._modes.decimals == "double":
            return FLOAT64_SCHEMA, float
        if modifier < 0:
            return _VARIABLE_DECIMAL, _variable_decimal
        precision, scale = numeric_modifier(modifier)
        schema = decimal_schema(scale)
        parameters = {**schema.parameters, "connect.decimal.precision": str(precision)}
        return dataclasses.replace(schema, parameters=parameters), _finite

    def _money(self) -> tuple[ConnectSchema, Convert]:
        if self._modes.decimals == "string":
            return STRING_SCHEMA, lambda text: format(_money_amount(text), "f")
        if self._modes.decimals == "double":
            return FLOAT64_SCHEMA, lambda text: float(_money_amount(text))
        return decimal_schema(2), _money_amount

    def _temporal(self, name: str, modifier: int) -> tuple[ConnectSchema, Convert]:
        mode, precise = self._modes.times, modifier < 0 or modifier > 3
        if mode == "connect":
            return {
                "date": (DATE_SCHEMA, lambda text: date_of(days_of_text(text))),
                "time": (TIME_SCHEMA, lambda text: time_of(microseconds_of_time(text) // 1000)),
                "timestamp": (TIMESTAMP_SCHEMA, lambda text: timestamp_of(_timestamp(text) // 1000)),
            }[name]
        if name == "date":
            return _DAYS, _days
        if name == "time":
            if precise or mode == "adaptive_time_microseconds":
                return _TIME_US, microseconds_of_time
            return _TIME_MS, lambda text: microseconds_of_time(text) // 1000
        if precise:
            return _TIMESTAMP_US, _timestamp
        return _TIMESTAMP_MS, lambda text: _timestamp(text) // 1000


def numeric_modifier(modifier: int) -> tuple[int, int]:
    """Precision and scale of a numeric column; the scale may be negative from PostgreSQL 15 on.

    Example:
        >>> numeric_modifier((10 << 16) + 2 + 4)
        (10, 2)
    """
    packed = modifier - 4
    scale = packed & 0x7FF
    return packed >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def _fallback(schema: ConnectSchema) -> object:
    if schema.name is not None and schema.type is SchemaType.BYTES and schema.name.endswith(".Decimal"):
        return Decimal(0).scaleb(-int(schema.parameters.get("scale", "0")))
    if schema is _ZONED_TIMESTAMP:
        return "1970-01-01T00:00:00.000000Z"
    if schema is _ZONED_TIME:
        return "00:00:00Z"
    if schema is _INTERVAL:
        return "P0Y0M0DT0H0M0S"
    if schema is _VARIABLE_DECIMAL:
        return {"scale": 0, "value": b"\0"}
    if schema is _POINT:
        return _point("(0,0)")
    if schema in (DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA):
        return {DATE_SCHEMA: date_of(0), TIME_SCHEMA: time_of(0), TIMESTAMP_SCHEMA: timestamp_of(0)}[schema]
    return _EMPTY.get(schema.type)


_EMPTY: Mapping[SchemaType, object] = {
    **dict.fromkeys((SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64), 0),
    **dict.fromkeys((SchemaType.FLOAT32, SchemaType.FLOAT64), 0.0),
    SchemaType.BOOLEAN: False,
    SchemaType.STRING: "",
    SchemaType.BYTES: b"",
    SchemaType.ARRAY: [],
    SchemaType.MAP: {},
}


def _finite(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise DataError(
            "INVALID_VALUE",
            f"{text} is a special value that decimal.handling.mode=precise cannot hold; set it to string or double, or "
            "leave out such rows with errors.tolerance=all",
        )
    return number


def _variable_decimal(text: str) -> object:
    number = _finite(text).normalize(_EXACT)
    _, _, exponent = number.as_tuple()
    scale = max(-int(exponent), 0)
    return {"scale": scale, "value": unscaled_bytes(number.quantize(Decimal(1).scaleb(-scale), context=_EXACT), scale)}


def _money_amount(text: str) -> Decimal:
    digits = re.sub(r"[^\d.]", "", text)
    amount = Decimal(digits).quantize(Decimal("0.01"))
    return -amount if text.startswith(("-", "(")) or "-" in text else amount


def _days(text: str) -> int:
    if text in _INFINITIES:
        return (1 << 31) - 1 if text == "infinity" else -(1 << 31)
    return days_of_text(text)


def _timestamp(text: str) -> int:
    return _INFINITIES[text] if text in _INFINITIES else _in_64_bits(microseconds_of_timestamp(text))


def _in_64_bits(microseconds: int) -> int:
    if not -(1 << 63) <= microseconds < 1 << 63:
        raise ValueError(f"{microseconds} microseconds do not fit in 64 bits")
    return microseconds


def _zoned_timestamp(text: str, digits: int) -> str:
    if len(text) == 29 and digits == 6 and text[10] == " " and text.endswith("+00"):  # as most are
        return f"{text[:10]}T{text[11:26]}Z"
    if text in _INFINITIES:
        return text
    era = " BC" if text.endswith(" BC") else ""
    date, _, rest = text.removesuffix(" BC").partition(" ")
    time, _, fraction = rest[: rest.rindex("+")].partition(".")
    if era:
        date = f"-{int(date[:4]) - 1:04}{date[4:]}"
    return f"{date}T{time}{'.' + fraction.ljust(digits, '0') if digits else ''}Z"


def _zoned_time(text: str) -> str:
    microseconds = (microseconds_of_time(text) - offset_of_text(text) * 1_000_000) % DAY_US
    seconds, fraction = divmod(microseconds, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}Z"


def _interval_microseconds(text: str) -> int:
    months, days, seconds = parse_interval(text)
    try:
        return _in_64_bits(int((months * _DAYS_PER_MONTH + days) * DAY_US + seconds * 1_000_000))
    except ValueError as error:
        raise ValueError(f"{error}; interval.handling.mode=string has no limit") from error


def _interval_text(text: str) -> str:
    months, days, seconds = parse_interval(text)
    years, months = int(months / 12), months - int(months / 12) * 12
    sign = "-" if seconds < 0 else ""
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    micros = int(rest * 1_000_000)
    shown = f"{micros // 1_000_000}" + (f".{micros % 1_000_000:06}".rstrip("0") if micros % 1_000_000 else "")
    parts = [f"{sign if each else ''}{each}" for each in (hours, minutes)]
    return f"P{years}Y{months}M{days}DT{parts[0]}H{parts[1]}M{sign if micros else ''}{shown}S"


def _bits(length: int) -> tuple[ConnectSchema, Convert]:
    if length == 1:
        return BOOLEAN_SCHEMA, lambda text: text == "1"
    size = (1 << 31) - 1 if length < 0 else length

    def read(text: str) -> object:
        number = int(text or "0", 2)
        return number.to_bytes((number.bit_length() + 7) // 8, "little")

    return _named(BYTES_SCHEMA, "io.debezium.data.Bits", length=str(size)), read


def _point(text: str) -> object:
    x, y = (float(each) for each in text.strip("()").split(","))
    return {"x": x, "y": y, "wkb": struct.pack("<BIdd", 1, 1, x, y), "srid": None}
