"""Event time of the records of a queue, and what happens to those that have none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.core.errors import SerializationError
from hayase.core.metrics import DROPPED_RECORDS, Metrics
from hayase.core.time import event_ms
from hayase.kernel.node.clocks import Clocks
from hayase.log.protocol import Int64Array, RecordBatch
from hayase.processor.timestamps import ConsumedRecord, TimestampExtractor
from hayase.serde.faults import said, shown

_LAST_MS = 2**62 - 1
"""The last valid event time, in the year 146 million.

Windows, graces and retentions can be added to it without overflow.
"""
_COMMON_ISO = r"^\d{4}-\d\d-\d\dT[0-2]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-](0\d|1[0-4]):[0-5]\d)?$"
"""Texts that Polars and Python read alike, if they are times at all."""
_ZONE = r"(Z|[+-]\d\d:\d\d)$"


def extract_times(
    extractor: TimestampExtractor,
    node: str,
    raw: RecordBatch,
    rows: npt.NDArray[np.int64],
    content: tuple[Sequence[object], Sequence[object]] | pl.DataFrame,
    *,
    clocks: Clocks,
    metrics: Metrics,
    wall_clock_ms: int,
) -> tuple[Int64Array, npt.NDArray[np.bool_] | None]:
    """Event times of `rows` and which of them to keep (`None`: all).

    Records without a valid time are skipped and counted, stop the application, or take the partition's largest time
    so far, as the extractor says.

    Raises:
        SerializationError: INVALID_TIMESTAMP, with topic, partition and offset.
    """
    if extractor.kind == "wall_clock":
        return np.full(len(rows), wall_clock_ms, np.int64), None
    if extractor.kind == "record":
        recorded = raw.timestamps_ms[rows]
        if extractor.on_invalid != "partition_time" and _all_valid(recorded):
            return recorded, None
    if extractor.kind == "field" and isinstance(content, pl.DataFrame) and not needs_partition_time(extractor):
        field = _field_column(content, str(extractor.field))
        column = _in_ms(field) if field is not None else None
        if column is not None and not column.null_count() and _all_valid(times_ms := column.to_numpy()):
            return times_ms, None
    clock_name = f"partition:{raw.topic}:{raw.partition}"
    partition_time = clocks.get(clock_name)
    if extractor.kind == "record":
        times: Sequence[object] = raw.timestamps_ms[rows].tolist()
        pick: Callable[[int, int], Any] = lambda position, _: times[position]  # noqa: E731
    elif extractor.kind == "field":
        fields = _field_values(content, str(extractor.field))
        pick = lambda position, _: event_ms(fields[position])  # noqa: E731
    else:
        pick = _callable_picker(extractor, raw, rows, content)
    result = np.empty(len(rows), np.int64)
    keep = np.ones(len(rows), np.bool_)
    for position in range(len(rows)):
        time = pick(position, partition_time)
        if isinstance(time, bool) or not isinstance(time, int) or not 0 <= time <= _LAST_MS:
            if extractor.on_invalid == "skip":
                keep[position] = False
                metrics.add(DROPPED_RECORDS, node)
                continue
            if extractor.on_invalid == "fail" or partition_time < 0:
                value = content[1][position] if isinstance(content, tuple) else None
                raise _invalid(extractor, node, raw, int(rows[position]), time, value)
            time = partition_time
        result[position] = time
        partition_time = max(partition_time, time)
    if needs_partition_time(extractor):
        clocks.set(clock_name, partition_time)
    return (result, None) if keep.all() else (result, keep)


def _all_valid(times_ms: Int64Array) -> bool:
    return len(times_ms) == 0 or (times_ms.min() >= 0 and times_ms.max() <= _LAST_MS)


def needs_partition_time(extractor: TimestampExtractor) -> bool:
    """Whether it keeps a clock per partition, which makes the task stateful."""
    return extractor.kind == "callable" or extractor.on_invalid == "partition_time"


def _field_values(content: tuple[Sequence[object], Sequence[object]] | pl.DataFrame, path: str) -> list[object]:
    if isinstance(content, pl.DataFrame):
        column = _field_column(content, path)
        return [None] * content.height if column is None else column.to_list()
    names = path.split(".")
    return [_walk(value, names) for value in content[1]]


def _in_ms(column: pl.Series) -> pl.Series | None:
    """Milliseconds of a column as `event_ms` would make them one by one; `None` if that is not known of all of them."""
    match column.dtype:
        case pl.Int64():
            return column
        case pl.Datetime() | pl.Date():
            return column.cast(pl.Datetime("ms") if column.dtype == pl.Date else column.dtype).dt.timestamp("ms")
        case pl.String() if not column.null_count() and column.str.contains(_COMMON_ISO).all():
            zoned = column.str.contains(_ZONE)
            texts = column if zoned.all() else column.to_frame("t").select(_with_zone(pl.col("t"))).to_series()
            return texts.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False).dt.timestamp("ms")
    return None


def _with_zone(text: pl.Expr) -> pl.Expr:
    return pl.when(text.str.contains(_ZONE)).then(text).otherwise(pl.concat_str(text, pl.lit("Z")))


def _field_column(frame: pl.DataFrame, path: str) -> pl.Series | None:
    """The field of a record's value; `None` if values of this schema have none, as bare values."""
    first, *rest = path.split(".")
    column = frame[first] if first in frame.columns else None
    for name in rest:
        if column is None or not isinstance(column.dtype, pl.Struct) or name not in column.struct.fields:
            return None
        column = column.struct.field(name)
    return column


def _walk(value: object, names: Sequence[str]) -> Any:
    for name in names:
        try:
            value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        except Exception as error:  # a property of a user's class; no time, and says why
            return error
    return value


def _callable_picker(
    extractor: TimestampExtractor, raw: RecordBatch, rows: npt.NDArray[np.int64], content: Any
) -> Callable[[int, int], Any]:
    keys, values = content
    function = extractor.function
    assert function is not None

    def pick(position: int, partition_time_ms: int) -> Any:
        record = raw.record(int(rows[position]))
        seen = ConsumedRecord(
            record.topic, record.partition, record.offset, record.timestamp_ms,
            keys[position], values[position], record.headers,
        )  # fmt: skip
        try:
            return function(seen, partition_time_ms)
        except Exception as error:  # user code may raise anything; without a time the record has no place
            raise SerializationError(
                "TIMESTAMP_EXTRACTOR_FAILED",
                f"the timestamp extractor failed: {said(error)}; fix it, or have it return -1 for a record "
                "without a time and choose on_invalid='skip' or 'partition_time'",
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
            ) from error

    return pick


def _invalid(
    extractor: TimestampExtractor, node: str, raw: RecordBatch, row: int, extracted: object, value: object
) -> SerializationError:
    source = f"field {extractor.field!r}" if extractor.kind == "field" else f"the {extractor.kind}"
    if extractor.field is not None and isinstance(value, dict) and extractor.field.partition(".")[0] not in value:
        source = f"field_timestamp({extractor.field!r}): the value has no such field, it has {shown(list(value))}; it"
    return SerializationError(
        "INVALID_TIMESTAMP",
        f"{source} gives {shown(extracted)} as event time; it must be a whole number of milliseconds since 1970, from "
        "0 to 2^62 - 1, or a date and time of not before 1970 (as a text: ISO 8601). Fix the producer, or choose "
        "on_invalid='skip' or 'partition_time' for the source's timestamp extractor",
        node=node,
        topic=raw.topic,
        partition=raw.partition,
        offset=int(raw.offsets[row]),
    )
