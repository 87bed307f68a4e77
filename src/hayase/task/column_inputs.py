"""Inputs of a task in column form: decode the queues, merge them, make one frame per source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from hayase.core.metrics import RECORDS_CONSUMED
from hayase.core.records import Change, Headers, SourceRecord
from hayase.kernel.node.column_node import HEADERS, KEY, NULL, OLD, OLD_NULL, TS, Order
from hayase.log.protocol import Int64Array, RecordBatch
from hayase.processor.timestamps import record_timestamp
from hayase.serde.faults import is_fault, of_sides, read_columns, shown
from hayase.serde.protocol import BARE_FIELD, Serde
from hayase.serde.subscription_columns import INSTRUCTION
from hayase.serde.subscriptions import Instruction, Subscription, SubscriptionSerde
from hayase.task.compiled_subtopology import CompiledSource
from hayase.task.edges import EDGE_HEADERS, read_headers
from hayase.task.event_time import extract_times
from hayase.task.input_merge import Chunk, Queue, RecordSource
from hayase.task.meter import count_consumed
from hayase.task.task_context import TaskContext

Origin = tuple[RecordSource, int]
"""A record, as a row of what it was read with."""


class FrameRecords:
    """Records that came over an edge as typed columns; serialized only when a handler wants to see one."""

    def __init__(
        self,
        source: CompiledSource,
        partition: int,
        frame: pl.DataFrame,
        offsets: Int64Array,
    ) -> None:
        """Keep them.

        Args:
            source: whose records.
            partition: of the task.
            frame: the records.
            offsets: of each of them.
        """
        self._offsets = offsets
        self._source = source
        self._partition = partition
        self._frame = frame
        self.headers = read_headers(frame[EDGE_HEADERS]) if EDGE_HEADERS in frame.columns else None

    def record(self, row: int) -> SourceRecord:
        """One record, for handlers."""
        values = self._frame.row(row, named=True)
        value: Any = None if values[NULL] else _value(values)
        if isinstance(self._source.value_serde, SubscriptionSerde):
            value = Subscription(**{**value, INSTRUCTION: Instruction(value[INSTRUCTION])})
        if OLD_NULL in values:
            old = {name.removeprefix(OLD): field for name, field in values.items() if name.startswith(OLD)}
            value = Change(value, None if values[OLD_NULL] else _value(old))
        return SourceRecord(
            str(self._source.edge),
            self._partition,
            int(self._offsets[row]),
            values[TS],
            _bytes_for_handlers(self._source.key_serde, values[KEY]),
            _bytes_for_handlers(self._source.value_serde, value),
            self.headers[row] if self.headers is not None else (),
        )

    def take(self, rows: Sequence[int]) -> FrameRecords:
        """See RecordSource."""
        return FrameRecords(self._source, self._partition, self._frame[rows], self._offsets[rows])

    def __reduce__(self) -> tuple[object, ...]:
        # Of the source only what a record is serialized with: its extractor may be any function.
        source = self._source
        bare = CompiledSource(source.name, source.key_serde, source.value_serde, record_timestamp(), source.edge)
        return FrameRecords, (bare, self._partition, self._frame, self._offsets)


def _bytes_for_handlers(serde: Serde, value: object) -> bytes | None:
    """The bytes of a value; of one that the serde cannot write, which may be why a handler is asked, its `repr`."""
    try:
        return serde.serialize(value)
    except BaseException as error:
        if not is_fault(error):
            raise
        return shown(value).encode(errors="backslashreplace")


def _value(columns: Mapping[str, object]) -> Any:
    """The row form's value of the columns of one row."""
    fields = {name: value for name, value in columns.items() if not name.startswith("__")}
    return fields.get(BARE_FIELD) if list(fields) == [BARE_FIELD] else fields


def no_record(timestamp_ms: int) -> RecordSource:
    """Stands for the record where there is none, in a punctuation."""
    return RecordBatch("", -1, np.array([-1]), np.array([timestamp_ms]), [None], [None], None)


def gathered(origins: Sequence[Origin]) -> list[Origin]:
    """The same records apart from all that was read with them, which can then go.

    Caches keep them until the end of an epoch: an error in what is sent then names them.
    """
    rows: dict[int, list[int]] = {}
    sources: dict[int, RecordSource] = {}
    numbered: list[tuple[int, int]] = []
    for source, row in origins:
        number = id(source)
        sources[number] = source
        mine = rows.setdefault(number, [])
        numbered.append((number, len(mine)))
        mine.append(row)
    taken = {number: source.take(rows[number]) for number, source in sources.items()}
    return [(taken[number], row) for number, row in numbered]


AtEnd = pl.DataFrame | Callable[[int], Origin]
"""Where what a cache sends at the end comes from, by its rank: order columns, or a look at what was kept on disk."""


@dataclass(slots=True)
class ColumnInputs:
    """The merged input of an epoch, or of a chunk of it.

    Attributes:
        frames: one frame per source of the sub-topology, ascending by `__o0`.
        count: number of records; `__o0` runs from 0 to `count - 1`.
        headers: headers by `__o0`, or `None` if no record has any; behind them those that nodes add.
    """

    frames: list[pl.DataFrame]
    count: int
    headers: list[Headers] | None
    _origins: list[RecordSource]
    _rows: list[npt.NDArray[np.int64]]
    _order: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

    _at_end: dict[int, AtEnd] = field(default_factory=dict)

    def sends_at_end(self, position: int, origins: AtEnd) -> None:
        """Say where comes from what the node at that position sends at the end of the epoch."""
        self._at_end[position] = origins

    def keep_headers(self, headers: Sequence[Headers]) -> int:
        """Add headers that no record has, beside those of the records; where they begin."""
        if self.headers is None:
            self.headers = [()] * self.count
        self.headers += headers
        return len(self.headers) - len(headers)

    def record(self, order: Order) -> SourceRecord:
        """The record of a row with these order columns."""
        source, row = self.origin(order)
        return source.record(row)

    def origin(self, order: Order) -> Origin:
        """The same as a row of what it was read with."""
        while order[0] >= self.count:
            origins = self._at_end[order[1]]
            if not isinstance(origins, pl.DataFrame):
                return origins(order[2])
            order = origins.row(order[2])
        queue = int(self._order[0][order[0]])
        return self._origins[queue], int(self._rows[queue][self._order[1][order[0]]])


def decode_frame(
    context: TaskContext,
    position: int,
    source: CompiledSource,
    partition: int,
    frame: pl.DataFrame,
    offsets: Int64Array,
) -> Queue:
    """Some records of a queue that came as typed columns."""
    context.metrics.add(RECORDS_CONSUMED, str(source.edge), frame.height)
    content = frame.drop(EDGE_HEADERS) if EDGE_HEADERS in frame.columns else frame
    raw, times = FrameRecords(source, partition, frame, offsets), frame[TS].to_numpy()
    context.meter.received(source.name, times)
    return Queue(position, raw, np.arange(frame.height), times, content)


def decode_columns(context: TaskContext, position: int, source: CompiledSource, raw: RecordBatch) -> Queue:
    """The frame of some records of a queue; records that fail go to the deserialization handler."""
    count_consumed(context.metrics, raw)
    context.meter.received_bytes(raw)
    if source.edge is None:
        source.fields_of_schema.look(source.name, source.value_serde, raw)
    key_codec, value_codec = source.key_serde.columns, source.value_serde.columns
    assert key_codec is not None and value_codec is not None
    keys = read_columns(source.key_serde, key_codec, raw.keys)
    values = read_columns(source.value_serde, value_codec, raw.values, source.fields)
    key = key_codec.schema.packed(keys.frame)
    if not key_codec.schema.bare and keys.null.any():
        key = pl.select(pl.when(~keys.null).then(key)).to_series()
    frame = values.frame.with_columns(key.alias(KEY), values.null.alias(NULL))
    rows = np.arange(len(raw))
    if keys.bad or values.bad:
        bad = of_sides(dict(keys.bad), dict(values.bad))
        for row in sorted(bad):
            context.failures.handle("deserialization", source.name, raw.record(row), bad[row])
        kept = np.ones(len(raw), np.bool_)
        kept[list(bad)] = False
        rows = np.flatnonzero(kept)
        frame = frame.filter(pl.Series(kept))
    times, valid = extract_times(
        source.extractor, source.name, raw, rows, frame,
        clocks=context.clocks, metrics=context.metrics, wall_clock_ms=context.wall_clock_ms,
    )  # fmt: skip
    if valid is not None:
        rows, times = rows[valid], times[valid]
        frame = frame.filter(pl.Series(valid))
    context.meter.received(source.name, times)
    return Queue(position, raw, rows, times, frame.with_columns(pl.Series(TS, times, pl.Int64)))


def merge_chunk(context: TaskContext, chunk: Chunk) -> ColumnInputs:
    """A chunk as one frame per source."""
    queues, order, count = chunk.queues, chunk.order, len(chunk)
    origins = [queue.raw for queue in queues]
    any_headers = any(origin.headers is not None for origin in origins)
    by_source: list[list[pl.DataFrame]] = [[] for _ in context.subtopology.sources]
    for number, queue in enumerate(queues):
        if len(queues) == 1:
            where = np.arange(count)
        else:
            rows_of_queue = np.flatnonzero(order[0] == number)
            where = np.empty(len(rows_of_queue), np.int64)
            where[order[1][rows_of_queue]] = rows_of_queue
        extra = [pl.Series("__o0", where, pl.Int64)]
        if any_headers:
            extra.append(pl.Series(HEADERS, where, pl.Int64))
        by_source[queue.source].append(queue.content.with_columns(extra))
    frames = [
        _joined(rows_of_queue, context.subtopology.sources[position], headers=any_headers)
        for position, rows_of_queue in enumerate(by_source)
    ]
    headers: list[Headers] | None = None
    if any_headers:
        headers = [()] * count
        for at, (number, position) in enumerate(zip(order[0].tolist(), order[1].tolist(), strict=True)):
            of_origin = origins[number].headers
            if of_origin is not None:
                headers[at] = of_origin[int(queues[number].rows[position])]
    return ColumnInputs(frames, count, headers, origins, [queue.rows for queue in queues], order)


def no_inputs(context: TaskContext, last: ColumnInputs, headers: list[Headers] | None) -> ColumnInputs:
    """Inputs without records, behind those of a chunk; `headers` are of what caches held back."""
    frames = [empty_frame(source, headers=headers is not None) for source in context.subtopology.sources]
    return replace(last, frames=frames, headers=headers, _at_end={})


def _joined(frames: list[pl.DataFrame], source: CompiledSource, *, headers: bool) -> pl.DataFrame:
    if len(frames) == 1:
        return frames[0]
    if not frames:
        return empty_frame(source, headers=headers)
    return pl.concat(frames).sort("__o0")


def empty_frame(source: CompiledSource, *, headers: bool) -> pl.DataFrame:
    """What a source sends when it has nothing to send."""
    schema = source.schema
    assert schema is not None
    key = dict(schema.key.fields)
    columns: dict[str, pl.DataType | type[pl.DataType]] = dict(schema.value.fields)
    columns[KEY] = key[BARE_FIELD] if schema.key.bare else pl.Struct(key)
    if schema.old_values:
        columns |= {OLD + name: dtype for name, dtype in schema.value.fields} | {OLD_NULL: pl.Boolean()}
    columns[NULL] = pl.Boolean
    columns[TS] = pl.Int64
    columns["__o0"] = pl.Int64
    if headers:
        columns[HEADERS] = pl.Int64
    return pl.DataFrame(schema=columns)
