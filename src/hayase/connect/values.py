"""Values as text and back, by the rules of Connect's `Values`: what headers and casts use."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import DAY_MS, days_of, milliseconds_of, milliseconds_of_day
from hayase.connect.numbers import shortest_float32, to_float32
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    NO_VALUE,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaAndValue,
    SchemaType,
    array_schema,
    decimal_schema,
)
from hayase.sql.types.java_numbers import double_text, wrapped

_TOKEN = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\])+|\\', re.DOTALL)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d\d\d)Z", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d\d\d)Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TEMPORAL = (DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA)
_INTEGERS = ((8, INT8_SCHEMA), (16, INT16_SCHEMA), (32, INT32_SCHEMA), (64, INT64_SCHEMA))
_BITS = {schema.type: bits for bits, schema in _INTEGERS}
_ORDER = (*_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64)


def parse_string(text: str | None) -> SchemaAndValue:
    """The value that a text means: null, a truth value, number, time, array or map, else the text itself.

    Example:
        >>> parse_string("[1, 2.5]").value, parse_string("true").value, parse_string("1 apple").value
        ([1.0, 2.5], True, '1 apple')
    """
    if text is None:
        return NO_VALUE
    if not text:
        return SchemaAndValue(STRING_SCHEMA, text)
    parsed = _Parser(text).parse(embedded=False)
    return NO_VALUE if parsed is None else parsed


def value_text(schema: ConnectSchema | None, value: object) -> str:
    """A value as text that `parse_string` reads.

    Example:
        >>> value_text(None, {"a": [1, None, "x"]})
        '{"a":[1,null,"x"]}'
    """
    return _text(schema, value, embedded=False)


def plain_text(value: object, schema: ConnectSchema | None = None) -> str:
    """A value as Java's `toString` writes it.

    Example:
        >>> plain_text([True, None, {"a": 1.5}])
        '[true, null, {a=1.5}]'
    """
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (bool, int, float, Decimal)):
        return _text(schema, value, embedded=False)
    if isinstance(value, (list, tuple)):
        inner = None if schema is None else schema.value_schema
        return f"[{', '.join(plain_text(each, inner) for each in value)}]"
    if isinstance(value, dict) and schema is not None and schema.type is SchemaType.STRUCT:
        given = ((field, value.get(field.name)) for field in schema.fields)
        parts = (f"{field.name}={plain_text(each, field.schema)}" for field, each in given if each is not None)
        return f"Struct{{{','.join(parts)}}}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{plain_text(name)}={plain_text(each)}' for name, each in value.items())}}}"
    if isinstance(value, (dt.date, dt.time)):
        return temporal_text(value)
    return str(value)


def temporal_text(value: dt.date | dt.time) -> str:
    """A date, time or timestamp in ISO 8601 (UTC); before 1970-01-02 only the time of day, as Connect does."""
    if isinstance(value, dt.datetime):
        milliseconds = milliseconds_of(value)
    elif isinstance(value, dt.time):
        milliseconds = milliseconds_of_day(value)
    else:
        milliseconds = days_of(value) * DAY_MS
    day, rest = divmod(milliseconds, DAY_MS)
    seconds, fraction = divmod(rest, 1000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}Z"
    if milliseconds < DAY_MS:
        return time
    date = (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
    return date if rest == 0 else f"{date}T{time}"


def _text(schema: ConnectSchema | None, value: object, *, embedded: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_float32 = schema is not None and schema.type is SchemaType.FLOAT32 and math.isfinite(value)
        return double_text(shortest_float32(value) if is_float32 else value)
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
    if isinstance(value, (bytes, bytearray, memoryview)):
        text = base64.b64encode(value).decode()
        return f'"{text}"' if embedded else text
    if isinstance(value, (list, tuple)):
        inner = None if schema is None else schema.value_schema
        return f"[{','.join(_text(inner, each, embedded=True) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(_entries(schema, value))}}}"
    if isinstance(value, (dt.date, dt.time)):
        return temporal_text(value)
    raise DataError("INVALID_VALUE", f"Failed to serialize unexpected value type {type(value).__name__}: {value!r:.80}")


def _entries(schema: ConnectSchema | None, value: Mapping[object, object]) -> list[str]:
    if schema is not None and schema.type is SchemaType.STRUCT:
        given = ((name, inner, value.get(name)) for name, _, inner in schema.fields)
        return [
            f'"{name}":{_text(inner, inner.default if each is None else each, embedded=True)}'
            for name, inner, each in given
        ]
    keys = None if schema is None else schema.key_schema
    values = None if schema is None else schema.value_schema
    return [f"{_text(keys, name, embedded=True)}:{_text(values, each, embedded=True)}" for name, each in value.items()]


def convert_number(kind: SchemaType, value: object) -> object:
    """A number, or the text of one, as a value of a numeric type; what is too large keeps its low bits, as in Java.

    Raises:
        DataError: `INVALID_VALUE`: it is no number.

    Example:
        >>> convert_number(SchemaType.INT8, "300.7"), convert_number(SchemaType.FLOAT64, 3)
        (44, 3.0)
    """
    number = _as_number(value)
    if kind is SchemaType.FLOAT64:
        return float(number)
    if kind is SchemaType.FLOAT32:
        return to_float32(float(number))
    if isinstance(number, Decimal) and number.adjusted() > 400:
        raise DataError("INVALID_VALUE", f"Unable to convert {value!r:.80} to a number: it is too large")
    if isinstance(number, float) and not math.isfinite(number):
        # Java's conversion saturates.
        number = 0 if math.isnan(number) else (1 << 63) - 1 if number > 0 else -(1 << 63)
    return wrapped(int(number), _BITS[kind])


def _as_number(value: object) -> int | float | Decimal:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            if _NUMBER.fullmatch(value):
                return Decimal(value)
        except InvalidOperation:
            pass
    raise DataError("INVALID_VALUE", f"Unable to convert {value!r:.80} ({type(value).__name__}) to a number")


class _NotEmbeddedError(ValueError):
    """The text is no array or map after all."""


class _Parser:
    """Reads a value from the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._original = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def parse(self, *, embedded: bool, depth: int = 0) -> SchemaAndValue | None:
        """The value at the current position; `None` for null and the end."""
        if self._at >= len(self._tokens):
            return None
        if depth > 100:
            raise _NotEmbeddedError("nested too deeply")
        if embedded and self._consume('"'):
            return self._quoted()
        for literal, found in (
            ("null", None),
            ("true", SchemaAndValue(BOOLEAN_SCHEMA, True)),
            ("false", SchemaAndValue(BOOLEAN_SCHEMA, False)),
        ):
            if self._consume_alone(literal, embedded):
                return found
        start = self._at
        try:
            if self._consume("["):
                return self._array(depth)
            if self._consume("{"):
                return self._map(depth)
        except (_NotEmbeddedError, DataError):
            self._at = start
        token = self._tokens[self._at]
        self._at += 1
        if not token.strip():
            return SchemaAndValue(STRING_SCHEMA, token)
        found = self._temporal(token.strip()) or _number(token.strip())
        if found is not None and (embedded or found.schema in _TEMPORAL or self._is_last()):
            return found
        if embedded:
            raise _NotEmbeddedError("Failed to parse embedded value")
        return SchemaAndValue(STRING_SCHEMA, self._original)

    def _is_last(self) -> bool:
        return self._at >= len(self._tokens)

    def _consume(self, expected: str) -> bool:
        at = self._at
        while at < len(self._tokens) - 1 and not self._tokens[at].strip():
            at += 1
        if at < len(self._tokens) and self._tokens[at].strip() == expected:
            self._at = at + 1
            return True
        return False

    def _consume_alone(self, literal: str, embedded: bool) -> bool:
        start = self._at
        if self._consume(literal) and (embedded or self._is_last()):
            return True
        self._at = start
        return False

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._at < len(self._tokens) and not self._consume('"'):
            parts.append(self._tokens[self._at])
            self._at += 1
        content = "".join(parts)
        temporal = parse_temporal(content)
        return temporal or SchemaAndValue(STRING_SCHEMA, content)

    def _array(self, depth: int) -> SchemaAndValue:
        elements: list[object] = []
        schema: ConnectSchema | None = None
        while not self._is_last():
            if self._consume("]"):
                if schema is not None:
                    elements = [_aligned(schema, each) for each in elements]
                    return SchemaAndValue(array_schema(schema), elements)
                return SchemaAndValue(ConnectSchema(SchemaType.ARRAY), elements)
            if self._consume(","):
                raise _NotEmbeddedError("an empty array element")
            element = self.parse(embedded=True, depth=depth + 1)
            schema = _common(schema, element)
            elements.append(None if element is None else element.value)
            before = self._at
            if self._consume("]"):
                self._at = before
            elif not self._consume(","):
                raise _NotEmbeddedError("Array elements missing ',' delimiter")
        raise _NotEmbeddedError("Array is missing terminating ']'")

    def _map(self, depth: int) -> SchemaAndValue:
        entries: dict[object, object] = {}
        keys: ConnectSchema | None = None
        values: ConnectSchema | None = None
        while not self._is_last():
            if self._consume("}"):
                schema = ConnectSchema(SchemaType.MAP, key_schema=keys, value_schema=values if keys else None)
                if keys is not None:
                    aligned = {_aligned(keys, name): each for name, each in entries.items()}
                    entries = {name: _aligned(values, each) for name, each in aligned.items()} if values else aligned
                return SchemaAndValue(schema, entries)
            if self._consume(","):
                raise _NotEmbeddedError("a map entry with no key or value")
            key = self.parse(embedded=True, depth=depth + 1)
            if key is None or isinstance(key.value, (list, dict)):
                raise _NotEmbeddedError("Map entry may not have a null key")
            if not self._consume(":"):
                raise _NotEmbeddedError("Map entry is missing ':'")
            value = self.parse(embedded=True, depth=depth + 1)
            entries[key.value] = None if value is None else value.value
            self._consume(",")
            keys, values = _common(keys, key), _common(values, value)
        raise _NotEmbeddedError("Map is missing terminating '}'")

    def _temporal(self, token: str) -> SchemaAndValue | None:
        if not token[0].isdigit():
            return None
        # Colons are tokens of their own, so that a time is five of them.
        if self._at + 4 <= len(self._tokens):
            found = parse_temporal(token + "".join(self._tokens[self._at : self._at + 4]))
            if found is not None:
                self._at += 4
                return found
        return parse_temporal(token)


def parse_temporal(text: str) -> SchemaAndValue | None:
    """A date, time or timestamp in ISO 8601 as `temporal_text` writes it, or `None`."""
    text = text.replace("\\:", ":")
    try:
        if found := _TIME.fullmatch(text):
            hour, minute, second, fraction = map(int, found.groups())
            return SchemaAndValue(TIME_SCHEMA, dt.time(hour, minute, second, fraction * 1000))
        if found := _TIMESTAMP.fullmatch(text):
            year, month, day, hour, minute, second, fraction = map(int, found.groups())
            at = dt.datetime(year, month, day, hour, minute, second, fraction * 1000, tzinfo=dt.UTC)
            return SchemaAndValue(TIMESTAMP_SCHEMA, at)
        if found := _DATE.fullmatch(text):
            year, month, day = map(int, found.groups())
            return SchemaAndValue(DATE_SCHEMA, dt.date(year, month, day))
    except ValueError:
        return None
    return None


def _number(token: str) -> SchemaAndValue | None:
    if not _NUMBER.fullmatch(token) or token[0] == ".":
        return None
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    if number.adjusted() < 20 and number == (whole := int(number)):
        for bits, schema in _INTEGERS:
            if -(1 << bits - 1) <= whole < 1 << bits - 1:
                return SchemaAndValue(schema, whole)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the pattern knows finite numbers only"
    if exponent != 0:
        single, double = to_float32(float(number)), float(number)
        if math.isfinite(single):
            return SchemaAndValue(FLOAT32_SCHEMA, single)
        if math.isfinite(double):
            return SchemaAndValue(FLOAT64_SCHEMA, double)
    return SchemaAndValue(decimal_schema(-exponent), number)


def _common(before: ConnectSchema | None, latest: SchemaAndValue | None) -> ConnectSchema | None:
    """The schema that holds values of both."""
    if latest is None or latest.schema is None:
        return before
    if before is None or before.type is latest.schema.type:
        return latest.schema
    if before.type in _ORDER and latest.schema.type in _ORDER:
        return max(before, latest.schema, key=lambda schema: _ORDER.index(schema.type))
    return None


def _aligned(schema: ConnectSchema, value: object) -> object:
    if value is None:
        raise DataError("INVALID_VALUE", "Unable to convert a null value to a schema that requires a value")
    if schema.name is None and schema.type in _ORDER:
        return convert_number(schema.type, value)
    if schema.type is SchemaType.STRING and not isinstance(value, str):
        return value_text(None, value)
    return value
