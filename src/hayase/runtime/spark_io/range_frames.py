"""A range of a topic as a Spark frame.

Each partition is fetched by a worker, when and as often as the frame is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hayase.core.errors import SerializationError
from hayase.core.records import TopicPartition
from hayase.log.protocol import RecordBatch
from hayase.runtime.spark_io.frame_columns import spark_schema, spark_type
from hayase.runtime.spark_io.published_ranges import SparkRange
from hayase.runtime.worker.worker import worker_process
from hayase.serde.faults import read_columns
from hayase.serde.protocol import ColumnCodec, Serde


@dataclass(frozen=True)
class RangeFrames:
    """Makes the frames of one `to_spark`.

    Attributes:
        session: the frames'.
        options: by which workers find the application.
        topic: the internal topic.
        schema: of the frames, as Spark has it.
        arrow: the same, as workers give it.
    """

    session: SparkSession
    options: Mapping[str, str]
    topic: str
    schema: Any
    arrow: pa.Schema

    @classmethod
    def make(
        cls,
        session: SparkSession,
        options: Mapping[str, str],
        name: str,
        topic: str,
        serdes: tuple[Serde, Serde],
    ) -> RangeFrames:
        """For a sink of that name, whose topic these serdes read.

        Raises:
            TopologyError: `INVALID_SPARK_FRAME`: Spark has no type for a field.
        """
        what = f"to_spark {name!r}"
        key, value = spark_type(serdes[0], what, "key"), spark_type(serdes[1], what, "value")
        return cls(session, dict(options), topic, *spark_schema(key, value))

    def frame(self, wanted: SparkRange) -> DataFrame:
        """The records of a range."""
        orders = [(partition, start, end) for partition, (start, end) in wanted.ranges.items() if end > start]
        numbers = self.session.range(0, len(orders), 1, len(orders))
        return numbers.mapInArrow(_fetcher(self.options, self.topic, self.arrow, orders), self.schema)


def _fetcher(
    options: Mapping[str, str], topic: str, schema: pa.Schema, orders: list[tuple[int, int, int]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fetch(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from fetch_range(options, topic, schema, *orders[number])

    return fetch


def fetch_range(
    options: Mapping[str, str], topic: str, schema: pa.Schema, partition: int, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """In a worker: the records of one partition."""
    worker = worker_process(options)
    key, value = worker.spark_serdes(topic)
    for batch in worker.reader().fetch(TopicPartition(topic, partition), start, end):
        if len(batch):
            yield to_rows(batch, key.columns, value.columns, schema)


def to_rows(
    batch: RecordBatch, key: ColumnCodec | None, value: ColumnCodec | None, schema: pa.Schema
) -> pa.RecordBatch:
    """Records as rows of a `to_spark` frame.

    Raises:
        SerializationError: bytes that the serde cannot read, with topic, partition and offset.
    """
    headers = batch.headers or [()] * len(batch)
    columns = [
        _decoded(batch, "key", batch.keys, key, schema.field("key").type),
        _decoded(batch, "value", batch.values, value, schema.field("value").type),
        pa.array(batch.timestamps_ms * 1000, pa.int64()).cast(schema.field("timestamp").type),
        pa.array([batch.partition] * len(batch), pa.int32()),
        pa.array(batch.offsets, pa.int64()),
        pa.array(
            [[{"key": name, "value": data} for name, data in each] for each in headers], schema.field("headers").type
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decoded(
    batch: RecordBatch, column: str, data: list[bytes | None], codec: ColumnCodec | None, dtype: pa.DataType
) -> pa.Array:
    if codec is None:
        return pa.array(data, pa.binary())
    decoded = read_columns(codec, codec, data)
    if decoded.bad:
        row, error = decoded.bad[0]
        raise SerializationError(
            "VALUE_NOT_DESERIALIZABLE",
            f"the {column} of a record of an internal topic cannot be read by its serde: {error}",
            topic=batch.topic,
            partition=batch.partition,
            offset=int(batch.offsets[row]),
        )
    if codec.schema.bare or not isinstance(dtype, pa.StructType):
        return _arrow(decoded.frame.to_series(), dtype)
    parts = [_arrow(decoded.frame[field.name], field.type) for field in dtype]
    return pa.StructArray.from_arrays(parts, fields=list(dtype), mask=_arrow(decoded.null, pa.bool_()))


def _arrow(column: pl.Series, dtype: pa.DataType) -> pa.Array:
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    return array if array.type == dtype else array.cast(dtype)
