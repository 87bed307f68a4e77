"""From the rows of a `from_spark` frame to records, and from the types of a serde to those of a `to_spark` frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from hayase.core.errors import HayaseError, ProductionError, SerializationError, TopologyError
from hayase.core.records import Headers
from hayase.log.partitioning import choose_partitions
from hayase.log.protocol import OutputBatch
from hayase.serde.protocol import BARE_FIELD, ColumnCodec, Serde

UTC = "UTC"
"""Time zone of the sessions that frames belong to."""
HEADERS = "array<struct<key:string,value:binary>>"

_REQUIRED = ("key", "value")
_OPTIONAL = ("timestamp", "headers", "partition")
_WHOLE = (ByteType, ShortType, IntegerType, LongType, NullType)
_Writer = Callable[[pa.ChunkedArray], list[bytes | None]]


class FrameColumns:
    """How the columns of one `from_spark` frame become records.

    Args:
        name: of the source.
        schema: of the frame.
        key_serde: writes keys that are neither binary nor string.
        value_serde: writes values likewise.

    Raises:
        TopologyError: `INVALID_SPARK_FRAME`: a column is missing, unknown, or of a type that is not allowed.
    """

    def __init__(self, name: str, schema: StructType, key_serde: Serde, value_serde: Serde) -> None:
        self._name = name
        types = {field.name: field.dataType for field in schema}
        self._check_names(schema.names)
        for column, dtype in types.items():
            self._check_meta(column, dtype)
        arrow = to_arrow_schema(schema, timezone=UTC)
        self._key = self._writer("key", types["key"], arrow.field("key").type, key_serde)
        self._value = self._writer("value", types["value"], arrow.field("value").type, value_serde)

    def records(self, table: pa.Table, topic: str, partitions: int, now_ms: int) -> OutputBatch:
        """The records of collected rows, in their order.

        Raises:
            SerializationError: a value does not fit its serde.
            ProductionError: a timestamp before 1970, a partition that the topic does not have, a header without a key.
        """
        names = set(table.column_names)
        batch = OutputBatch(
            topic,
            self._written("key", table.column("key"), self._key),
            self._written("value", table.column("value"), self._value),
            self._times(table.column("timestamp"), now_ms) if "timestamp" in names else [now_ms] * len(table),
            headers=self._headers(table.column("headers")) if "headers" in names else None,
        )
        if "partition" in names:
            self._place(batch, table.column("partition"), partitions)
        return batch

    def _check_names(self, names: list[str]) -> None:
        for column in _REQUIRED:
            if column not in names:
                raise self._wrong(
                    column,
                    f"there is no column {column!r}; it has {names}. Select it, as lit(None) if there is nothing",
                )
        for column in names:
            if column not in (*_REQUIRED, *_OPTIONAL):
                raise self._wrong(
                    column,
                    f"column {column!r} means nothing; allowed are key, value, timestamp, headers and partition. "
                    "Select those, or put others into the value",
                )
            if names.count(column) > 1:
                raise self._wrong(column, f"there are two columns {column!r}")

    def _check_meta(self, column: str, dtype: DataType) -> None:
        if column == "timestamp" and not isinstance(dtype, TimestampType | LongType | NullType):
            raise self._wrong(column, f"it must be timestamp or bigint (milliseconds since 1970), not {_shown(dtype)}")
        if column == "partition" and not isinstance(dtype, _WHOLE):
            raise self._wrong(column, f"it must be a whole number, not {_shown(dtype)}")
        if column == "headers" and _shown(dtype) != HEADERS and not isinstance(dtype, NullType):
            raise self._wrong(column, f"it must be {HEADERS}, not {_shown(dtype)}")

    def _writer(self, column: str, dtype: DataType, arrow: pa.DataType, serde: Serde) -> _Writer:
        codec = serde.columns
        if isinstance(dtype, BinaryType | StringType | NullType):
            self._check_text(column, dtype, serde, codec)
            return _as_they_are
        if codec is None:
            return lambda data: [serde.serialize(value) for value in data.to_pylist()]
        written = _in_columns(codec)
        if not codec.schema.bare:
            self._check_fields(column, dtype, codec)
        elif isinstance(dtype, StructType):
            raise self._wrong(column, f"it is {_shown(dtype)}, and {type(serde).__name__} writes single values")
        try:
            written(pa.chunked_array([], arrow))
        except SerializationError as error:
            raise self._wrong(column, error.message) from error
        except (pa.ArrowException, pl.exceptions.PolarsError) as error:
            raise self._wrong(column, f"{type(serde).__name__} cannot write {_shown(dtype)}: {error}") from error
        return written

    def _check_text(self, column: str, dtype: DataType, serde: Serde, codec: ColumnCodec | None) -> None:
        bare = codec.schema.fields[0][1] if codec is not None and codec.schema.bare else pl.Binary()
        if isinstance(dtype, StringType) and bare not in (pl.String, pl.Binary):
            raise self._wrong(
                column, f"it is string, and {type(serde).__name__} writes {bare}; cast it, or give another serde"
            )

    def _check_fields(self, column: str, dtype: DataType, codec: ColumnCodec) -> None:
        if not isinstance(dtype, StructType):
            raise self._wrong(
                column,
                f"it is {_shown(dtype)}, and its serde has the fields {codec.schema.names}; make it a struct of these",
            )
        for field in codec.schema.names:
            if field not in dtype.names:
                raise self._wrong(f"{column}.{field}", f"its serde has that field, the struct has {dtype.names}")
        for field in dtype.names:
            if field not in codec.schema.names:
                raise self._wrong(f"{column}.{field}", f"its serde does not have that field, only {codec.schema.names}")

    def _written(self, column: str, data: pa.ChunkedArray, write: _Writer) -> list[bytes | None]:
        try:
            return write(data)
        except SerializationError as error:
            raise SerializationError(
                error.condition, f"from_spark {self._name!r}, column {column!r}: {error.message}"
            ) from error

    def _times(self, data: pa.ChunkedArray, now_ms: int) -> list[int]:
        if pa.types.is_timestamp(data.type):
            data = data.cast(pa.timestamp("ms", data.type.tz), safe=False)
        times: list[int] = pc.fill_null(data.cast(pa.int64()), now_ms).to_pylist()
        if times and (least := min(times)) < 0:
            raise self._refused("timestamp", f"{least} ms is before 1970")
        return times

    def _headers(self, data: pa.ChunkedArray) -> list[Headers] | None:
        headers_of_rows: list[Headers] = []
        for row in data.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in row or () if header is not None)
            if any(key is None for key, _ in headers):
                raise self._refused("headers", "a header has no key")
            headers_of_rows.append(headers)
        return headers_of_rows if any(headers_of_rows) else None

    def _place(self, batch: OutputBatch, data: pa.ChunkedArray, partitions: int) -> None:
        given = pc.fill_null(data.cast(pa.int64()), -1).to_numpy()
        free = data.is_null().to_numpy()
        wrong = ~free & ((given < 0) | (given >= partitions))
        if wrong.any():
            raise self._refused(
                "partition", f"{given[wrong][0]} is none of the topic's partitions, 0 to {partitions - 1}"
            )
        if not free.all():
            batch.partitions = np.where(free, choose_partitions(batch, partitions), given).astype(np.int32)

    def _wrong(self, column: str, why: str) -> TopologyError:
        return TopologyError(
            "INVALID_SPARK_FRAME", f"the frame of from_spark {self._name!r} cannot be used: {why}", column=column
        )

    def _refused(self, column: str, why: str) -> HayaseError:
        return ProductionError("RECORD_REFUSED", f"a row of from_spark {self._name!r}: {why}", column=column)


def spark_type(serde: Serde, what: str, column: str) -> pa.DataType:
    """What a key or value is in a `to_spark` frame: the serde's schema, binary where it has none.

    Raises:
        TopologyError: `INVALID_SPARK_FRAME`: Spark has no such type.
    """
    codec = serde.columns
    if codec is None:
        return pa.binary()
    fields = [(name, _arrow_type(dtype, what, f"{column}.{name}")) for name, dtype in codec.schema.fields]
    return fields[0][1] if codec.schema.bare else pa.struct([pa.field(name, dtype) for name, dtype in fields])


def spark_schema(key: pa.DataType, value: pa.DataType) -> tuple[StructType, pa.Schema]:
    """Schema of a `to_spark` frame with these keys and values, as Spark and as Arrow has it."""
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    schema = from_arrow_schema(
        pa.schema(
            [
                pa.field("key", key),
                pa.field("value", value),
                pa.field("timestamp", pa.timestamp("us", UTC)),
                pa.field("partition", pa.int32()),
                pa.field("offset", pa.int64()),
                pa.field("headers", pa.list_(header)),
            ]
        )
    )
    return schema, to_arrow_schema(schema, timezone=UTC)


_SAME: tuple[tuple[type[pl.DataType], pa.DataType], ...] = (
    (pl.String, pa.string()),
    (pl.Binary, pa.binary()),
    (pl.Boolean, pa.bool_()),
    (pl.Int8, pa.int8()),
    (pl.Int16, pa.int16()),
    (pl.Int32, pa.int32()),
    (pl.Int64, pa.int64()),
    (pl.UInt8, pa.int16()),
    (pl.UInt16, pa.int32()),
    (pl.UInt32, pa.int64()),
    (pl.UInt64, pa.decimal128(20, 0)),
    (pl.Float32, pa.float32()),
    (pl.Float64, pa.float64()),
    (pl.Date, pa.date32()),
    (pl.Duration, pa.duration("us")),
    (pl.Categorical, pa.string()),
    (pl.Enum, pa.string()),
    (pl.Null, pa.string()),
)


def _arrow_type(given: Any, what: str, column: str) -> pa.DataType:
    dtype: pl.DataType = given() if isinstance(given, type) else given
    match dtype:
        case pl.Datetime():
            return pa.timestamp("us", None if dtype.time_zone is None else UTC)
        case pl.Decimal():
            return pa.decimal128(dtype.precision or 38, dtype.scale)
        case pl.List() | pl.Array():
            return pa.list_(_arrow_type(dtype.inner, what, column))
        case pl.Struct():
            return pa.struct([pa.field(f.name, _arrow_type(f.dtype, what, f"{column}.{f.name}")) for f in dtype.fields])
    for known, arrow in _SAME:
        if dtype == known:
            return arrow
    raise TopologyError(
        "INVALID_SPARK_FRAME",
        f"{what} writes a field of type {dtype}, which Spark does not have; map it to another type, or produce with "
        "Serdes.bytes()",
        column=column,
    )


def _as_they_are(data: pa.ChunkedArray) -> list[bytes | None]:
    return list(data.cast(pa.binary()).to_pylist())


def _in_columns(codec: ColumnCodec) -> _Writer:
    def bare(data: pa.ChunkedArray) -> list[bytes | None]:
        return codec.encode(_series(data).alias(BARE_FIELD).to_frame())

    def fields(data: pa.ChunkedArray) -> list[bytes | None]:
        column = _series(data)
        return codec.encode(column.struct.unnest().select(codec.schema.names), column.is_null())

    return bare if codec.schema.bare else fields


def _series(data: pa.ChunkedArray) -> pl.Series:
    series = pl.from_arrow(data)
    assert isinstance(series, pl.Series)
    return series


def _shown(dtype: DataType) -> str:
    return str(dtype.simpleString())
