"""Rows of JSON, a column at a time; see json_twins for what is read the short way."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
from msgspec import UNSET

from hayase.core.errors import SerializationError
from hayase.serde.bare import cast, read_each
from hayase.serde.faults import unreadable
from hayase.serde.protocol import ColumnCodec, Decoded, Schema, Serde
from hayase.sql.formats.columns import Column
from hayase.sql.formats.json_format import JsonPayload
from hayase.sql.formats.json_twins import JsonTwin, converter
from hayase.sql.formats.json_writing import ENCODER, has_plain_doubles, writer
from hayase.sql.formats.packing import packed_forms
from hayase.sql.formats.row_columns import FROM_ROWS, codec_of, packed_series, unpacked
from hayase.sql.types import sql_types as sql


class JsonRowsCodec(ColumnCodec):
    """The column form of JSON objects of columns.

    Args:
        serde: the row form.
        payload: what the row form reads and writes by; it learns how names are spelled.
        columns: names and types.
        schema: of `row_columns.column_schema`.
    """

    def __init__(self, serde: Serde[Any], payload: JsonPayload, columns: Sequence[Column], schema: Schema) -> None:
        self._serde = serde
        self._payload = payload
        self._columns = list(columns)
        self._schema = schema
        self._packed = packed_forms(columns)
        converters = [converter(column.type) for column in columns]
        self._converters = [
            (index, each)
            for index, each in enumerate(converters)
            if each is not None and not isinstance(columns[index].type, sql.DoubleType)  # see _series
        ]
        self._writers = [writer(column.type) for column in columns]
        written = [(f"f{index}", Any, msgspec.field(name=column.name)) for index, column in enumerate(columns)]
        self._filled = msgspec.defstruct("Row", written, gc=False, eq=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return (codec_of, (self._serde,))

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self._schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; the text `null` is a null value as well."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        twin = self._payload.twin
        decoded = None if twin is None else self._at_once(twin, values, fields)
        if decoded is not None:
            return decoded
        if twin is None:
            columns, left = [[None] * len(values) for _ in self._columns], list(range(len(values)))
            null = [False] * len(values)
        else:
            columns, left, null = self._short_way(twin, values)
        rows, bad = read_each(
            self._serde.deserialize,
            [values[at] for at in left],
            lambda data, error: unreadable(error, self._serde, data),
        )
        failed = {left[at] for at, _ in bad}
        for at, row in zip(left, rows, strict=True):
            null[at] = row is None and at not in failed
            for column, own in zip(columns, self._columns, strict=True):
                column[at] = None if row is None else row[own.name]
        frame = self._frame(columns, fields, len(values))
        return Decoded(frame, pl.Series(null, dtype=pl.Boolean), [(left[at], error) for at, error in bad])

    def _at_once(self, twin: JsonTwin, values: Sequence[bytes | None], fields: frozenset[str] | None) -> Decoded | None:
        """All records, if each has all columns as they are; else `None`."""
        if self._converters:
            return None
        try:
            twins = list(map(twin.decode_strictly if twin.respelled else twin.decode, values))  # type: ignore[arg-type]
            made = [
                self._series(index, list(map(attrgetter(twin.attributes[index]), twins)))
                for index, column in enumerate(self._columns)
                if fields is None or column.name in fields
            ]
            frame = pl.DataFrame(made or None, height=len(values))
            if not made and None in twins:
                return None
        except Exception:  # something does not fit, a null value is among them, or UNSET in a column
            return None
        return Decoded(frame, pl.repeat(False, len(values), dtype=pl.Boolean, eager=True), [])

    def _short_way(
        self, twin: JsonTwin, values: Sequence[bytes | None]
    ) -> tuple[list[list[Any]], list[int], list[bool]]:
        """Columns, the rows that have to be read the long way, and which are null."""
        texts: Sequence[Any] = [b"null" if text is None else text for text in values] if None in values else values
        respelled = twin.respelled or bool(twin.respelled_inside)
        twins = _strictly(twin, texts) if respelled else None
        failed: list[tuple[int, Exception]] = []
        decided = twins is not None
        if twins is None:
            twins, failed = read_each(twin.decode, texts, lambda _, error: error)  # type: ignore[arg-type,return-value]
        left = {at for at, _ in failed}
        null = [False] * len(texts)
        if None in twins:
            null = [each is None for each in twins]
            twins = [twin.empty if each is None else each for each in twins]
        present = [at for at, gone in enumerate(null) if not gone and at not in left]
        columns = [list(map(attrgetter(name), twins)) for name in twin.attributes]
        missing = any(UNSET in column for column in columns)
        if not decided and (missing or twin.respelled):
            left |= {present[at] for at in twin.undecided([texts[at] for at in present])}
        if missing:
            columns = [[None if value is UNSET else value for value in column] for column in columns]
        for index, convert in self._converters:
            left |= _converted(columns[index], convert)
        if not decided and twin.respelled_inside:
            left |= {at for at in present if at not in left and not twin.is_decided_inside(texts[at])}
        return columns, sorted(left), null

    def _frame(self, columns: list[list[Any]], fields: frozenset[str] | None, height: int) -> pl.DataFrame:
        made = [
            self._series(index, column)
            for index, column in enumerate(columns)
            if fields is None or self._columns[index].name in fields
        ]
        return pl.DataFrame(made or None, height=height)

    def _series(self, index: int, values: list[Any]) -> pl.Series:
        name, dtype = self._schema.fields[index]
        series = packed_series(name, values, dtype, self._packed.get(name))
        if dtype != pl.Float64:
            return series
        # Java's zero from a decimal text has no sign; Polars leaves -0.0 + 0.0 as it is.
        return pl.select(pl.when(series == 0).then(0.0).otherwise(series).alias(name)).to_series()

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        if null is not None and null.any():
            texts = iter(self.encode(frame.filter(~null)))
            return [None if gone else next(texts) for gone in null.to_list()]
        written = [self._written(index, frame) for index in range(len(self._columns))]
        try:
            return list(map(ENCODER.encode, map(self._filled, *written)))
        except Exception as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", str(error)) from error

    def _written(self, index: int, frame: pl.DataFrame) -> list[Any]:
        name, dtype = self._schema.fields[index]
        column = cast(self._serde, frame[name], dtype)
        write = self._writers[index]
        if name in self._packed:
            values = unpacked(column, self._packed[name])
            return values if write is None else [None if value is None else write(value) for value in values]
        if write is None or (dtype == pl.Float64 and has_plain_doubles(column)) or dtype == pl.Binary:
            return column.to_list()
        return [None if value is None else write(value) for value in column.to_list()]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        """See ColumnCodec."""
        if null is not None and null.any():
            present = iter(self.to_python(frame.filter(~null)))
            return [None if gone else next(present) for gone in null.to_list()]
        columns = [
            unpacked(cast(self._serde, frame[name], dtype), self._packed.get(name))
            for name, dtype in self._schema.fields
        ]
        names = self._schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec; raises SerializationError."""
        try:
            columns = [
                packed_series(
                    name, [None if value is None else value[name] for value in values], dtype, self._packed.get(name)
                )
                for name, dtype in self._schema.fields
            ]
        except FROM_ROWS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"a row does not fit its columns: {error}") from error
        return pl.DataFrame(columns), pl.Series([value is None for value in values], dtype=pl.Boolean)


def _strictly(twin: JsonTwin, texts: Sequence[Any]) -> list[Any] | None:
    """The twins of records, if each has only the columns' names, in the spelling that is expected; else `None`."""
    try:
        return list(map(twin.decode_strictly, texts))
    except msgspec.MsgspecError:
        return None


def _converted(column: list[Any], convert: Any) -> set[int]:
    """Convert the values of a column in place; the rows whose values cannot be converted."""
    left: set[int] = set()
    for at, value in enumerate(column):
        if value is not None:
            try:
                column[at] = convert(value)
            except Exception:  # the long way says what it is
                column[at] = None
                left.add(at)
    return left
