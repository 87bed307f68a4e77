"""The format DELIMITED: one line of text, a column between two delimiters, nothing for null."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hayase.sql.formats.columns import Column
from hayase.sql.formats.delimited_text import joined, split
from hayase.sql.formats.payload import PayloadCodec
from hayase.sql.types import sql_types as sql
from hayase.sql.types.java_numbers import (
    decimal_number,
    decimal_text,
    double_text,
    fitted,
    floating_number,
    whole_number,
)


class DelimitedPayload(PayloadCodec):
    """Columns between delimiters; records and bare values look the same."""

    def __init__(self, columns: Sequence[Column], delimiter: str, *, bare: bool) -> None:
        self._bare = bare
        self._delimiter = delimiter
        self._columns = [(column.name, _parser(column.type), _WRITERS[type(column.type)]) for column in columns]

    def write(self, value: Any) -> bytes:
        """The line without its end."""
        values = [value] if self._bare else [value[name] for name, _, _ in self._columns]
        texts = [
            None if item is None else write(item) for item, (_, _, write) in zip(values, self._columns, strict=True)
        ]
        return joined(texts, self._delimiter).encode()

    def read(self, data: bytes) -> Any:
        """The columns of the first line; raises ValueError if there are more or fewer than expected."""
        texts = split(data.decode(), self._delimiter)
        if len(texts) != len(self._columns):
            raise ValueError(f"the line has {len(texts)} columns, expected are {len(self._columns)}")
        row = {name: parse(text) if text else None for text, (name, parse, _) in zip(texts, self._columns, strict=True)}
        return row[self._columns[0][0]] if self._bare else row


def _parser(type_: sql.SqlType) -> Callable[[str], Any]:
    if isinstance(type_, sql.DecimalType):
        return partial(_decimal, type_.precision, type_.scale)
    return _PARSERS[type(type_)]


def _decimal(precision: int, scale: int, text: str) -> Any:
    return fitted(decimal_number(text), precision, scale)


def _boolean(text: str) -> bool:
    return text.lower() == "true"


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_int32, _int64 = partial(whole_number, bits=32), partial(whole_number, bits=64)
_PARSERS: dict[type[sql.SqlType], Callable[[str], Any]] = {
    sql.BooleanType: _boolean,
    sql.IntegerType: _int32,
    sql.BigintType: _int64,
    sql.DoubleType: floating_number,
    sql.StringType: str,
    sql.BytesType: _base64,
    sql.DateType: _int32,
    sql.TimeType: _int32,
    sql.TimestampType: _int64,
}
_WRITERS: dict[type[sql.SqlType], Callable[[Any], str]] = {
    sql.BooleanType: lambda value: "true" if value else "false",
    sql.IntegerType: str,
    sql.BigintType: str,
    sql.DoubleType: double_text,
    sql.DecimalType: decimal_text,
    sql.StringType: str,
    sql.BytesType: lambda value: base64.b64encode(value).decode(),
    sql.DateType: str,
    sql.TimeType: str,
    sql.TimestampType: str,
}
