"""The columns of any format: a loop over its row form, with what all column forms of rows have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.bare import read_each
from hayase.serde.faults import unreadable
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Decoded, Schema, Serde
from hayase.sql.formats.columns import Column, dtype_of

_FROM_ROWS = (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)
_NO_COLUMNS = Schema(((BARE_FIELD, pl.String()),), bare=True)
"""Keys without columns: always null."""


def column_schema(columns: Sequence[Column]) -> Schema | None:
    """Names and column types of rows; `None` if some column, or its name, has no column form."""
    dtypes = [(column.name, dtype_of(column.type)) for column in columns]
    present = tuple((name, dtype) for name, dtype in dtypes if dtype is not None and can_be_a_column(name))
    return Schema(present, python_type=dict) if present and len(present) == len(columns) else None


def key_column_schema(columns: Sequence[Column]) -> Schema | None:
    """The same of keys, of which an only column is bare."""
    if not columns:
        return _NO_COLUMNS
    if len(columns) > 1:
        return column_schema(columns)
    dtype = dtype_of(columns[0].type)
    return None if dtype is None else Schema(((BARE_FIELD, dtype),), bare=True)


def can_be_a_column(name: str) -> bool:
    """Whether the name is neither ours nor, to Polars, a pattern."""
    return not name.startswith("__") and not (name.startswith("^") and name.endswith("$"))


class RowByRowCodec(ColumnCodec):
    """The column form of keys or values that are read and written one by one.

    Args:
        serde: the row form: of bare values, or of dicts of the schema's fields.
        schema: of the values.
    """

    def __init__(self, serde: Serde[Any], schema: Schema) -> None:
        self._serde = serde
        self._schema = schema

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
            values = [dict(zip(names, row, strict=True)) for row in frame.select(names).iter_rows()]
        if null is None or not null.any():
            return values
        return [None if gone else value for value, gone in zip(values, null.to_list(), strict=True)]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec; raises SerializationError."""
        try:
            frame = self._frame(values, None)
        except _FROM_ROWS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"a row does not fit its columns: {error}") from error
        return frame, pl.Series([value is None for value in values], dtype=pl.Boolean)

    def _frame(self, rows: Sequence[Any], fields: frozenset[str] | None) -> pl.DataFrame:
        if self._schema.bare:
            return pl.DataFrame([pl.Series(BARE_FIELD, rows, self._schema.fields[0][1], strict=True)])
        columns = [
            pl.Series(name, [None if row is None else row[name] for row in rows], dtype, strict=True)
            for name, dtype in self._schema.fields
            if fields is None or name in fields
        ]
        return pl.DataFrame(columns or None, height=len(rows))


def codec_of(serde: Serde[Any]) -> ColumnCodec:
    """The column form of a serde that has one."""
    codec = serde.columns
    assert codec is not None
    return codec
