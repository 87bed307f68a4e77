"""The columns of rows in stores and internal topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl

from hayase.core.errors import SerializationError
from hayase.serde.bare import read_each
from hayase.serde.faults import unreadable
from hayase.serde.protocol import BARE_FIELD, Decoded, Schema, Serde
from hayase.sql.formats.packing import NIL, PackedForm
from hayase.sql.formats.row_columns import RowByRowCodec

_ENCODER = msgspec.msgpack.Encoder()


class InternalCodec(RowByRowCodec):
    """The column form of `InternalSerde`; rows are never made.

    Args:
        serde: the row form.
        schema: of the values.
        packers: by column, what brings a value that is not None into the form that is written; `None`: it is in it.
        unpackers: by column, what makes a value of what was read.
        decode_row: bytes as a record with an attribute for each column; `None` of a bare column.
        attributes: their names.
        packed: the columns whose values are packed.
    """

    def __init__(
        self,
        serde: Serde[Any],
        schema: Schema,
        packers: Sequence[Any],
        unpackers: Sequence[Any],
        decode_row: Any,
        attributes: Sequence[str],
        packed: Mapping[str, PackedForm],
    ) -> None:
        super().__init__(serde, schema, packed)
        self._packers = packers
        self._unpackers = unpackers
        self._decode_row = decode_row
        self._attributes = attributes

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        if self._schema.bare or None in values:
            return super().decode_list(values, fields)
        records, bad = read_each(self._decode_row, values, lambda data, error: unreadable(error, self._serde, data))
        if bad:
            return super().decode_list(values, fields)
        columns = [
            pl.Series(name, self._unpacked(index, list(map(attrgetter(attribute), records))), dtype, strict=True)
            for index, ((name, dtype), attribute) in enumerate(zip(self._schema.fields, self._attributes, strict=True))
            if fields is None or name in fields
        ]
        frame = pl.DataFrame(columns or None, height=len(values))
        return Decoded(frame, pl.repeat(False, len(values), dtype=pl.Boolean, eager=True), [])

    def _unpacked(self, index: int, values: list[Any]) -> list[Any]:
        if self._schema.names[index] in self._packed:
            return [None if value is None or (data := bytes(value)) == NIL else data for value in values]
        unpack = self._unpackers[index]
        return values if unpack is None else [None if value is None else unpack(value) for value in values]

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        columns = [self._written(index, frame[name]) for index, name in enumerate(self._schema.names)]
        rows = columns[0] if self._schema.bare else zip(*columns, strict=True)
        try:
            data: list[bytes | None] = list(map(_ENCODER.encode, rows))
        except Exception as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", str(error)) from error
        if null is None and self._schema.bare:
            null = frame[BARE_FIELD].is_null()
        if null is None or not null.any():
            return data
        return [None if gone else each for each, gone in zip(data, null.to_list(), strict=True)]

    def encode_packed(self, column: pl.Series) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        return self.encode(self._schema.unpacked(column), column.is_null() if column.null_count() else None)

    def _written(self, index: int, column: pl.Series) -> list[Any]:
        packed = self._packed.get(self._schema.names[index])
        if packed is not None:
            values = column.to_list()
            if packed.stored is not None:
                values = [value if value is None or value == NIL else packed.stored(value) for value in values]
            return [None if value is None else msgspec.Raw(value) for value in values]
        pack = self._packers[index]
        if pack is None:
            return column.to_list()
        if column.dtype == pl.Float64:
            return column.fill_nan(float("nan")).to_list() if column.is_nan().any() else column.to_list()
        return [None if value is None else pack(value) for value in column.to_list()]
