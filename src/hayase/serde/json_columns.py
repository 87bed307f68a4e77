"""JSON, a column at a time.

The values go through the same msgspec decoder and encoder as in rows, value by value but in one C loop each,
so that nothing can be read or written differently. Measured with values of 98 bytes and 5 fields, into a
frame: this 0.6 µs a value; pyarrow's reader 1.2 µs, polars' json_decode 0.8 µs, polars' read_ndjson 0.4 µs.
Those three take some texts for something else: NaN for a number, a number for text, 1.5 for 1, the first of
duplicate fields for the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl
import pyarrow as pa

from hayase.core.decoding import making_decoder
from hayase.core.errors import SerializationError
from hayase.serde.bare import READ_ERRORS, read_each
from hayase.serde.protocol import ColumnCodec, Decoded, Schema
from hayase.serde.shapes import Shape


class JsonCodec(ColumnCodec):
    """The column form of JSON with a schema.

    Args:
        shape: the fields.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        with making_decoder():
            self._decoder = msgspec.json.Decoder(shape.twin | None)
        self._encoder = msgspec.json.Encoder()

    def __reduce__(self) -> tuple[object, ...]:
        return (JsonCodec, (self._shape,))

    @property
    def schema(self) -> Schema:
        """The fields in order."""
        return self._shape.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; the text `null` is a null value as well."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        texts = [b"null" if text is None else text for text in values] if None in values else values
        twins, bad = read_each(self._decoder.decode, texts, bad_json)  # type: ignore[arg-type] # none of them is None
        frame, null = self._shape.frame(twins, fields)
        if bad:
            null = null.scatter([index for index, _ in bad], False)
        return Decoded(frame, null, bad)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec.

        Raises:
            SerializationError: a column does not fit the schema, or a number is NaN or infinite.
        """
        if null is not None and null.any():
            texts = iter(self.encode(frame.filter(~null)))
            return [None if gone else next(texts) for gone in null.to_list()]
        rows = self._shape.rows(frame)
        self._refuse_non_finite(frame)
        try:
            return list(map(self._encoder.encode, rows))
        except READ_ERRORS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", str(error)) from error

    def _refuse_non_finite(self, frame: pl.DataFrame) -> None:
        columns = self._shape.columns(frame)
        self._shape.refuse_non_finite([leaf for column in columns for leaf in _leaves(column)])

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        """See ColumnCodec."""
        return self._shape.to_python(frame, null)

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec."""
        return self._shape.from_python(values)


def bad_json(data: bytes, error: BaseException) -> SerializationError:
    """The error for bytes that are no JSON, or not the JSON expected."""
    return SerializationError("VALUE_NOT_DESERIALIZABLE", f"{error}; it is {data[:200]!r}")


def _leaves(column: pl.Series) -> list[pl.Series]:
    """The columns without structure that make up a column."""
    if isinstance(column.dtype, pl.List):
        return _leaves(column.drop_nulls().explode())
    if isinstance(column.dtype, pl.Struct):
        return [leaf for part in column.struct.unnest() for leaf in _leaves(part)]
    return [column]
