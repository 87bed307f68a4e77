"""Rows of Avro, a column at a time, where the writer's schema has the columns as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.serde.avro_schema import AvroSchema, NoColumnFormError
from hayase.serde.bare import read_each
from hayase.serde.faults import unreadable
from hayase.serde.protocol import ColumnCodec, Decoded, Schema, Serde
from hayase.serde.registry_serde import HEAD_SIZE
from hayase.sql.formats.avro_format import AvroPayload

_FROM_ROWS = (KeyError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError)


class AvroRowsCodec(ColumnCodec):
    """The column form of Avro records of columns.

    Args:
        serde: the row form.
        payload: what the row form reads and writes by.
        schema: names and column types; those of the payload's own schema.
    """

    def __init__(self, serde: Serde[Any], payload: AvroPayload, schema: Schema) -> None:
        self._serde = serde
        self._payload = payload
        self._schema = schema
        own = payload.writing.columns
        if own is None:
            raise NoColumnFormError("the schema that is written has no column form")
        self._own = own
        self._readings: dict[bytes, ColumnCodec | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_codec_of, (self._serde,))

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self._schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; raises SchemaRegistryError where the registry does not answer."""
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        """See ColumnCodec; raises as `decode`."""
        wanted = [each for each in self._schema.fields if fields is None or each[0] in fields]
        heads = {value[:HEAD_SIZE] for value in values if value is not None}
        codec = self._reading(next(iter(heads))) if len(heads) == 1 else None
        if codec is not None:
            names = frozenset(name for name, _ in wanted) & set(codec.schema.names)
            decoded = codec.decode_list(values, names)
            columns = [
                decoded.frame[name] if name in names else pl.Series(name, [None] * len(values), dtype)
                for name, dtype in wanted
            ]
            return Decoded(pl.DataFrame(columns or None, height=len(values)), decoded.null, decoded.bad)
        rows, bad = read_each(self._serde.deserialize, values, lambda data, error: unreadable(error, self._serde, data))
        failed = {at for at, _ in bad}
        null = [row is None and at not in failed for at, row in enumerate(rows)]
        return Decoded(_frame(rows, wanted), pl.Series(null, dtype=pl.Boolean), bad)

    def _reading(self, head: bytes) -> ColumnCodec | None:
        """What decodes records with a head, if they have the columns as they are; else `None`."""
        if head not in self._readings:
            try:
                self._readings[head] = self._made(head)
            except SerializationError:  # no head, or of no schema: the row form says it of each record
                return None
        return self._readings[head]

    def _made(self, head: bytes) -> ColumnCodec | None:
        serde = self._payload.by_writer(head)
        writer, own = serde.reader, self._payload.writing.reader
        if writer is None or own is None or writer.columns is None or not _has_columns(writer, own):
            return None
        return serde.columns

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        """See ColumnCodec; raises SerializationError, and SchemaRegistryError if there is no id for the schema."""
        return self._own.encode(frame, null)

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        """See ColumnCodec."""
        return self._own.to_python(frame, null)

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        """See ColumnCodec; raises SerializationError."""
        try:
            frame = _frame(values, self._schema.fields)
        except _FROM_ROWS as error:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", f"a row does not fit its columns: {error}") from error
        return frame, pl.Series([value is None for value in values], dtype=pl.Boolean)


def _frame(rows: Sequence[Any], fields: Sequence[tuple[str, pl.DataType]]) -> pl.DataFrame:
    columns = [
        pl.Series(name, [None if row is None else row[name] for row in rows], dtype, strict=True)
        for name, dtype in fields
    ]
    return pl.DataFrame(columns or None, height=len(rows))


def _has_columns(writer: AvroSchema, own: AvroSchema) -> bool:
    """Whether a record of the writer has each column of ours with its type, or nothing of that name in any case."""
    if writer.bare:
        return False
    written, upper_cased = writer.fields(), {name.upper() for name in writer.fields()}
    for name, field in own.fields().items():
        if name not in written:
            if name.upper() in upper_cased:
                return False
        elif not _same(writer, written[name]["type"], own, field["type"]):
            return False
    return True


def _same(writer: AvroSchema, written: Any, own: AvroSchema, wanted: Any) -> bool:
    """Whether two types are read alike: equal, except that one may be null where the other is not."""
    try:
        written, _ = writer.nullable(written)
        wanted, _ = own.nullable(wanted)
    except NoColumnFormError:
        return False
    before, after = writer.definition(written), own.definition(wanted)
    if before["type"] != after["type"] or "logicalType" in before or "logicalType" in after:
        return False
    if before["type"] == "record":
        names = [field["name"] for field in before["fields"]] == [field["name"] for field in after["fields"]]
        pairs = zip(before["fields"], after["fields"], strict=False)
        return names and all(_same(writer, one["type"], own, other["type"]) for one, other in pairs)
    if before["type"] == "array":
        return _same(writer, before["items"], own, after["items"])
    return bool(before["type"] != "map")


def _codec_of(serde: Serde[Any]) -> ColumnCodec:
    codec = serde.columns
    assert codec is not None
    return codec
