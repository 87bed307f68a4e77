"""Rows of JSON through msgspec's structs, where a record is written as the columns' types are.

It is the short way of json_reading for records whose fields have the types of the columns and one spelling of each
name. What is not so for certain is left to json_reading; both give the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from hayase.core.decoding import making_decoder
from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import fitted

Fields = tuple[tuple[str, sql.SqlType], ...]
Convert = Callable[[Any], Any]
"""Makes the SQL value of what msgspec made."""

_INT = msgspec.Meta(ge=-(2**31), le=2**31 - 1)
_LONG = msgspec.Meta(ge=-(2**63), le=2**63 - 1)
_BECOME_ASCII = "ßıſﬀﬁﬂﬃﬄﬅﬆ"
"""All letters beyond ASCII whose upper case is in ASCII, and so may be that of a column."""

_NAMES: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECIDED_MAX = 1000
_STRICT_TRIES = 50


class UndecidedError(Exception):
    """The record has to be read field by field."""


class JsonTwin:
    """Decodes objects with some fields into rows.

    Args:
        fields: names and types of the columns.
        spelling: how the records are expected to write the names that they do not write as the columns do.

    Attributes:
        decode: the twin of some bytes, `None` for the text `null`; raises msgspec's errors.
        decode_strictly: the same for objects that have only the columns' names, each in the one spelling that is
            expected: what it does not refuse is decided.
        empty: the twin whose fields all are null.
        attributes: names of the twin's fields, in the columns' order; UNSET where a record does not have the name.
        respelled: some column is expected in another spelling.
        respelled_inside: the same of names inside of columns: in capitals and as expected, in quotes.
    """

    def __init__(self, fields: Fields, spelling: Mapping[str, str]) -> None:
        self.fields = fields
        self.spelling = dict(spelling)
        twin = _twin(fields, self.spelling)
        with making_decoder():
            self.decode = msgspec.json.Decoder(twin | None).decode
            self.decode_strictly = msgspec.json.Decoder(_twin(fields, self.spelling, strict=True)).decode
        self._strict_tries = _STRICT_TRIES
        self.empty = twin(*(None for _ in fields))
        self.attributes = [each.name for each in msgspec.structs.fields(twin)]
        self._row = _row_of(fields)
        converters = [(name, converter(type_)) for name, type_ in fields]
        self._converters = [(name, each) for name, each in converters if each is not None]
        inside = {name for _, type_ in fields for name in _names(type_) if name == name.upper() != name.lower()}
        self.respelled = any(name in self.spelling for name, _ in fields)
        self.respelled_inside = [_token(name, self.spelling) for name in sorted(inside & self.spelling.keys())]
        self._letters = [letter.encode() for letter in _BECOME_ASCII if any(letter.upper() in name for name in inside)]
        self._decided: dict[tuple[str, ...], bool] = {}

    def read(self, data: bytes) -> dict[str, Any] | None:
        """The row of a record, `None` for null.

        Raises:
            UndecidedError: it has to be read field by field; so do msgspec's errors, and ValueError, say.
        """
        decided, twin = self._strictly(data) if self.respelled or self.respelled_inside else (False, None)
        if not decided:
            twin = self.decode(data)
        if twin is None:
            return None
        row = self._row(twin)
        missing = UNSET in row.values()
        if not decided and (missing or self.respelled or self.respelled_inside):
            self._check(data, strictly=missing and not (self.respelled or self.respelled_inside))
        if missing:
            row = {name: None if value is UNSET else value for name, value in row.items()}
        for name, convert in self._converters:
            value = row[name]
            if value is not None:
                row[name] = convert(value)
        return row

    def _strictly(self, data: bytes) -> tuple[bool, Any]:
        """Whether a record has only the columns' names, each in the one spelling that is expected, and its twin."""
        if self._strict_tries:
            try:
                twin = self.decode_strictly(data)
            except msgspec.MsgspecError:
                self._strict_tries -= 1  # records with other fields are the rule
            else:
                self._strict_tries = _STRICT_TRIES
                return True, twin
        return False, None

    def _check(self, data: bytes, *, strictly: bool) -> None:
        """Raises UndecidedError unless each name is written in the one spelling that is expected."""
        if strictly and self._strictly(data)[0]:
            return
        inside = not self.respelled_inside or self.is_decided_inside(data)
        if not inside or not self._are_decided(tuple(_NAMES.decode(data))):
            raise UndecidedError

    def _are_decided(self, names: tuple[str, ...]) -> bool:
        decided = self._decided.get(names)
        if decided is None:
            if len(self._decided) >= _DECIDED_MAX:
                self._decided.clear()
            decided = self._decided[names] = all(self._is_decided(name, names) for name, _ in self.fields)
        return decided

    def _is_decided(self, name: str, given: tuple[str, ...]) -> bool:
        expected = self.spelling.get(name, name)
        meant = {each for each in given if name in (each, each.upper())}
        return meant <= {expected} or (expected == name and name in meant)

    def is_decided_inside(self, data: bytes) -> bool:
        """Whether all that looks like a respelled name inside of columns is in the expected spelling."""
        if b"\\u" in data or any(letter in data for letter in self._letters):
            return False
        upper = data.upper()
        return all(upper.count(token) == data.count(expected) for token, expected in self.respelled_inside)

    def undecided(self, texts: Sequence[bytes]) -> list[int]:
        """Which of some objects write a column's name in several spellings, or in one that is not expected."""
        names = list(map(tuple, map(_NAMES.decode, texts)))
        left = {each for each in set(names) if not self._are_decided(each)}
        return [at for at, each in enumerate(names) if each in left] if left else []


def spelling_of(fields: Fields, value: Any) -> dict[str, str]:
    """How a decoded record spells the names that it does not have as the columns have them."""
    return {name: key for name, key in _spelled(sql.StructType(fields), value) if name.isascii() and key.isascii()}


def _spelled(type_: sql.SqlType, value: Any) -> Iterator[tuple[str, str]]:
    match type_:
        case sql.StructType(fields) if type(value) is dict:
            upper_cased = {key.upper(): key for key in value}
            for name, inner in fields:
                key = name if name in value else upper_cased.get(name)
                if key is not None:
                    yield from _spelled(inner, value[key])
                    if key != name:
                        yield name, key
        case sql.ArrayType(item) if type(value) is list:
            for each in value[:1]:
                yield from _spelled(item, each)
        case sql.MapType(_, item) if type(value) is dict:
            for each in list(value.values())[:1]:
                yield from _spelled(item, each)


def _names(type_: sql.SqlType) -> Iterator[str]:
    """The names of fields inside of a type."""
    match type_:
        case sql.StructType(fields):
            for name, inner in fields:
                yield name
                yield from _names(inner)
        case sql.ArrayType(item) | sql.MapType(_, item):
            yield from _names(item)


def _token(name: str, spelling: Mapping[str, str]) -> tuple[bytes, bytes]:
    """A name in quotes, in capitals and as it is expected."""
    return f'"{name}"'.encode(), f'"{spelling.get(name, name)}"'.encode()


def _twin(fields: Fields, spelling: Mapping[str, str], *, strict: bool = False) -> Any:
    named = _can_be_named(fields)
    made = []
    for index, (name, type_) in enumerate(fields):
        written = msgspec.field(name=spelling.get(name, name), default=UNSET)
        hint = _hint(type_, spelling, strict=strict) | UnsetType
        made.append((name if named else f"f{index}", hint, written))
    return msgspec.defstruct("Row", made, gc=False, eq=False, forbid_unknown_fields=strict)


def _hint(type_: sql.SqlType, spelling: Mapping[str, str], *, strict: bool) -> Any:
    """The type hint that accepts, besides null, only what needs no conversion but that of `converter`."""
    match type_:
        case sql.ArrayType(item):
            return list.__class_getitem__(_hint(item, spelling, strict=strict)) | None
        case sql.MapType(_, item):
            return dict.__class_getitem__((str, _hint(item, spelling, strict=strict))) | None
        case sql.StructType(fields):
            return _twin(fields, spelling, strict=strict) | None
    return _HINTS[type(type_)]


def converter(type_: sql.SqlType) -> Convert | None:
    """What makes the SQL value of one that is not None; `None`: it is one."""
    match type_:
        case sql.DecimalType(precision, scale):
            return partial(_decimal, precision, scale)
        case sql.DoubleType():
            return _double
        case sql.ArrayType(item):
            convert = converter(item)
            return None if convert is None else partial(_array, convert)
        case sql.MapType(_, item):
            convert = converter(item)
            return None if convert is None else partial(_map, convert)
        case sql.StructType(fields):
            inner = [(name, converter(each)) for name, each in fields]
            return partial(_struct, _row_of(fields), [(name, each) for name, each in inner if each is not None])
    return None


def _double(value: float) -> float:
    return value + 0.0  # without the sign of a zero, which Java's BigDecimal does not have


def _decimal(precision: int, scale: int, value: msgspec.Raw) -> Decimal | None:
    text = bytes(value)
    if text == b"null":
        return None
    if text[:1] not in _NUMBER_BEGINS:
        raise UndecidedError
    return fitted(Decimal(text.decode()), precision, scale)


def _array(convert: Convert, value: list[Any]) -> list[Any]:
    return [None if item is None else convert(item) for item in value]


def _map(convert: Convert, value: dict[str, Any]) -> dict[str, Any]:
    return {key: None if item is None else convert(item) for key, item in value.items()}


def _struct(make: Convert, fields: list[tuple[str, Convert]], value: Any) -> dict[str, Any]:
    row: dict[str, Any] = make(value)
    if UNSET in row.values():
        raise UndecidedError
    for name, convert in fields:
        item = row[name]
        if item is not None:
            row[name] = convert(item)
    return row


def _row_of(fields: Fields) -> Callable[[Any], dict[str, Any]]:
    """What makes a dict of a twin: in C where the names of the columns are those of the twin's fields."""
    if _can_be_named(fields):
        return msgspec.structs.asdict
    return partial(_named, tuple(name for name, _ in fields))


def _named(names: tuple[str, ...], twin: Any) -> dict[str, Any]:
    return dict(zip(names, msgspec.structs.astuple(twin), strict=True))


def _can_be_named(fields: Fields) -> bool:
    return all(name.isidentifier() and not name.startswith("__") for name, _ in fields)


_NUMBER_BEGINS = {b"-", *(b"%d" % digit for digit in range(10))}
_HINTS: dict[type[sql.SqlType], Any] = {
    sql.BooleanType: bool | None,
    sql.IntegerType: Annotated[int, _INT] | None,
    sql.BigintType: Annotated[int, _LONG] | None,
    sql.DoubleType: float | None,
    sql.DecimalType: msgspec.Raw,
    sql.StringType: str | None,
    sql.BytesType: bytes | None,
    sql.DateType: Annotated[int, _INT] | None,
    sql.TimeType: Annotated[int, _INT] | None,
    sql.TimestampType: Annotated[int, _LONG] | None,
}
