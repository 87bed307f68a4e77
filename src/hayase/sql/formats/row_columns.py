"""The columns of any format: a loop over its row form, with what all column forms of rows have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.bare import read_each
from hayase.serde.faults import unreadable
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde
from hayase.sql.formats.columns import Column, column_dtype, is_packed
from hayase.sql.formats.packing import PackedForm, packed_forms

FROM_ROWS = (AttributeError, KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)
"""What values of another type than the column raise."""
_NO_COLUMNS = Schema(((BARE_FIELD, pl.String()),), bare=True)
"""Keys without columns: always null."""


def column_schema(columns: Sequence[Column], packed: Collection[str] = ()) -> Schema | None:
    """Names and column types of rows; `None` if there are no columns, or Polars does not take a name.

    Args:
        columns: of the rows.
        packed: names of those that are packed whatever their types.
    """
    if not columns or not all(can_be_a_column(column.name) for column in columns):
        return None
    packings = packed_forms(columns, packed)
    fields = tuple(
        (column.name, pl.Binary() if column.name in packings else column_dtype(column.type)) for column in columns
    )
    return Schema(fields, python_type=dict, packings=tuple(packings.items()))


def key_column_schema(columns: Sequence[Column]) -> Schema | None:
    """The same of keys, of which an only column is bare; `None` also for columns that are packed."""
    if not columns:
        return _NO_COLUMNS
    if any(is_packed(column.type) for column in columns):
        return None
    return column_schema(columns) if len(columns) > 1 else bare_of(column_dtype(columns[0].type))


def bare_of(dtype: pl.DataType) -> Schema:
    """The schema of bare values of a type."""
    return Schema(((BARE_FIELD, dtype),), bare=True)


def can_be_a_column(name: str) -> bool:
    """Whether the name is neither ours nor, to Polars, a pattern."""
    return not name.startswith("__") and not (name.startswith("^") and name.endswith("$"))


class RowByRowCodec(ColumnCodec):
    """The column form of keys or values that are read and written one by one.

    Args:
        serde: the row form: of bare values, or of dicts of the schema's fields.
        schema: of the values.
        packed: the columns whose values are packed.
    """

    def __init__(self, serde: Serde[Any], schema: Schema, packed: Mapping[str, PackedForm] | None = None) -> None:
        self._serde = serde
        self._schema = schema
        self._packed = packed or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return codec_of, (self._serde,)

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self._schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        rows, bad = read_each(self._serde.deserialize, values, lambda data, error: unreadable(error, self._serde, data))
        failed = {at for at, _ in bad}
        null = [row is None and at not in failed for at, row in enumerate(rows)]
        frame = self._frame(rows, fields)
        return Decoded(frame, pl.Series(null, dtype=pl.Boolean), bad)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        return list(map(self._serde.serialize, self.to_python(frame, null)))

    def encode_packed(self, column: pl.Series) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        return list(map(self._serde.serialize, column.to_list()))

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        """See ColumnCodec."""
        if self._schema.bare:
            values = frame[BARE_FIELD].to_list()
        else:
            names = self._schema.names
            columns = [unpacked(frame[name], self._packed.get(name)) for name in names]
            values = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if null is None or not null.any():
            return values
        return [None if gone else value for value, gone in zip(values, null.to_list(), strict=True)]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec; raises SerializationError."""
        try:
            frame = self._frame(values, None)
        except FROM_ROWS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"a row does not fit its columns: {error}") from error
        return frame, pl.Series([value is None for value in values], dtype=pl.Boolean)

    def _frame(self, rows: Sequence[Any], fields: frozenset[str] | None) -> pl.DataFrame:
        if self._schema.bare:
            return pl.DataFrame([pl.Series(BARE_FIELD, rows, self._schema.fields[0][1], strict=True)])
        columns = [
            packed_series(name, [None if row is None else row[name] for row in rows], dtype, self._packed.get(name))
            for name, dtype in self._schema.fields
            if fields is None or name in fields
        ]
        return pl.DataFrame(columns or None, height=len(rows))


def unpacked(column: pl.Series, form: PackedForm | None) -> list[Any]:
    """The values of a column, which may be packed."""
    return column.to_list() if form is None else form.unpack_all(column.to_list())


def packed_series(name: str, values: Sequence[Any], dtype: pl.DataType, form: PackedForm | None) -> pl.Series:
    """Values as a column, packed if they are to be; raises `FROM_ROWS` for what is not of the type."""
    return pl.Series(name, values if form is None else form.pack_all(values), dtype, strict=True)


def codec_of(serde: Serde[Any]) -> ColumnCodec:
    """The column form of a serde that has one."""
    codec = serde.columns
    assert codec is not None
    return codec
