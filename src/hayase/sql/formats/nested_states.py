"""States of several fields that are one column in the store, and as many columns as they have fields beside it.

So the state of an aggregate function has the same bytes whether the engine computes it field by field or a loop does it
as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.serde.protocol import ColumnCodec, Decoded, Schema, Serde
from hayase.sql.formats.row_columns import codec_of

Nested = Mapping[str, Mapping[str, str]]
"""By the name of a column in the store: the names beside it, by the fields of its struct."""


class NestedStatesSerde(Serde[dict[str, Any]]):
    """Dicts of fields, some of which are inside of a struct in the bytes.

    Args:
        inner: of the columns in the store, in which there are STRUCTs.
        nested: which fields are inside.
    """

    def __init__(self, inner: Serde[dict[str, Any]], nested: Nested) -> None:
        self._inner = inner
        self._nested = {name: dict(fields) for name, fields in nested.items()}
        self._inside = {flat for fields in self._nested.values() for flat in fields.values()}

    def __reduce__(self) -> tuple[Any, ...]:
        return NestedStatesSerde, (self._inner, self._nested)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedStatesSerde) and (self._inner, self._nested) == (other._inner, other._nested)

    def __hash__(self) -> int:
        return hash(self._inner)

    def to_bytes(self, value: dict[str, Any]) -> bytes:
        """Raises SerializationError."""
        row = {name: item for name, item in value.items() if name not in self._inside}
        for name, fields in self._nested.items():
            row[name] = {field: value[flat] for field, flat in fields.items()}
        return self._inner.to_bytes(row)

    def from_bytes(self, data: bytes) -> dict[str, Any]:
        """Raises SerializationError."""
        row = self._inner.from_bytes(data)
        for name, fields in self._nested.items():
            state = row.pop(name)
            row.update({flat: None if state is None else state[field] for field, flat in fields.items()})
        return row

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` if a column has none."""
        inner = self._inner.columns
        return None if inner is None else _NestedStatesCodec(self, inner, self._nested)


class _NestedStatesCodec(ColumnCodec):
    """The column form: structs are taken apart, and put together."""

    def __init__(self, serde: Serde[Any], inner: ColumnCodec, nested: Nested) -> None:
        self._serde = serde
        self._inner = inner
        self._nested = nested
        fields: list[tuple[str, pl.DataType]] = []
        self._apart: list[pl.Expr] = []
        self._together: list[pl.Expr] = []
        for name, dtype in inner.schema.fields:
            if name not in nested:
                fields.append((name, dtype))
                self._apart.append(pl.col(name))
                self._together.append(pl.col(name))
                continue
            assert isinstance(dtype, pl.Struct)
            types = {field.name: pl.Series(dtype=field.dtype).dtype for field in dtype.fields}
            fields += [(flat, types[field]) for field, flat in nested[name].items()]
            self._apart += [pl.col(name).struct.field(field).alias(flat) for field, flat in nested[name].items()]
            parts = [pl.col(flat).alias(field) for field, flat in nested[name].items()]
            self._together.append(pl.struct(parts).alias(name))
        self._schema = Schema(tuple(fields), python_type=dict, packings=inner.schema.packings)

    def __reduce__(self) -> tuple[Any, ...]:
        return codec_of, (self._serde,)

    @property
    def schema(self) -> Schema:
        """The fields."""
        return self._schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self._taken_apart(self._inner.decode(data), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec."""
        return self._taken_apart(self._inner.decode_list(values), fields)

    def _taken_apart(self, decoded: Decoded, fields: frozenset[str] | None) -> Decoded:
        frame = decoded.frame.select(self._apart)
        kept = [name for name in frame.columns if fields is None or name in fields]
        return Decoded(frame.select(kept), decoded.null, decoded.bad)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError."""
        return self._inner.encode(frame.select(self._together), null)

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        """See ColumnCodec."""
        return [self._serde.deserialize(data) for data in self.encode(frame, null)]

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec; raises SerializationError."""
        decoded = self.decode_list([self._serde.serialize(value) for value in values]).checked()
        return decoded.frame, decoded.null
