"""Rows between tasks: what is sent over an edge, and what has arrived.

The payload of a row is an Arrow IPC stream of serialized records, or of a frame with typed columns. In front stand four
letters and a checksum: a damaged stream can kill the process that reads it.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from hayase.core.errors import SerializationError
from hayase.core.records import Headers, TaskId
from hayase.kernel.node.column_node import HEADERS, KEY, OLD, order_columns
from hayase.log.protocol import RecordBatch
from hayase.serde.faults import is_fault, said
from hayase.serde.murmur2 import partition_for_key
from hayase.state.delta.journal import EdgeRow
from hayase.state.environment.spill import EpochSpace
from hayase.task.compiled_subtopology import CompiledSink
from hayase.task.outputs import Outputs

PAYLOAD_BYTES_MAX = 8_000_000
"""A payload is cut when it would grow beyond this; it crosses the shuffle as one value."""

EDGE_HEADERS = "__headers"
_HEAD = struct.Struct(">4sI")
_MAGIC = b"HER1"
_WITHOUT_CHECKSUM = b"\xff\xff\xff\xff"  # an Arrow stream begins with this
_HEADERS_TYPE = pl.List(pl.Struct({"name": pl.String, "value": pl.Binary}))
_STORED_BYTES = 300
"""What a row costs in memory whose payload is on disk."""
_Payload = bytes | Callable[[], bytes]
"""In memory, or read from disk at every call."""


def origin_order(origin: str) -> tuple[int, int]:
    """Sort key of an origin task id, so that `1_10` comes after `1_9`."""
    if origin.startswith("global"):
        return (-1, 0)
    task = TaskId.parse(origin)
    return (task.subtopology, task.partition)


class EdgeBuffer:
    """Serialized records of one task for one edge, kept apart by target partition until `flush`."""

    def __init__(self, sink: CompiledSink, origin: str) -> None:
        self._sink = sink
        self._origin = origin
        self._sent = 0
        self._targets: dict[int, tuple[list[bytes | None], list[bytes | None], list[int], list[Headers]]] = {}

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        chosen: Sequence[int] | None = None,
    ) -> None:
        """One record, to the partitions that were chosen for it; else a null key goes to that of its position."""
        if chosen is None:
            partitions = self._sink.partitions
            chosen = (self._sent % partitions if key is None else partition_for_key(key, partitions),)
        self._sent += 1
        for target in chosen:
            keys, values, times, all_headers = self._targets.setdefault(target, ([], [], [], []))
            keys.append(key)
            values.append(value)
            times.append(timestamp_ms)
            all_headers.append(headers)

    def flush(self, outputs: Outputs) -> None:
        """Turn what was added into rows."""
        for target in sorted(self._targets):
            keys, values, times, headers = self._targets[target]
            frame = pl.DataFrame(
                {"key": keys, "value": values, "ts": times},
                schema={"key": pl.Binary, "value": pl.Binary, "ts": pl.Int64},
            )
            if any(headers):
                frame = frame.with_columns(headers_series(headers))
            send_rows(outputs, self._sink, self._origin, target, frame)
        self._targets.clear()


def send_rows(outputs: Outputs, sink: CompiledSink, origin: str, target: int, frame: pl.DataFrame) -> None:
    """Send a frame to a target partition, behind what was sent there before, in rows cut by size."""
    pieces = max(1, -(-int(frame.estimated_size()) // PAYLOAD_BYTES_MAX))
    step = max(1, -(-frame.height // pieces))
    task = f"{sink.target_subtopology}_{target}"
    for start in range(0, frame.height, step):
        payload = to_payload(frame[start : start + step])
        seq = outputs.take_numbers(1, sink.topic, origin, task)
        outputs.rows.append(EdgeRow(task, sink.topic, origin, seq, payload))


def to_payload(frame: pl.DataFrame) -> bytes:
    """A frame as the payload of a row."""
    buffer = io.BytesIO(bytes(_HEAD.size))
    buffer.seek(_HEAD.size)
    frame.write_ipc_stream(buffer)
    with buffer.getbuffer() as content:
        _HEAD.pack_into(content, 0, _MAGIC, zlib.crc32(content[_HEAD.size :]))
    return buffer.getvalue()


def from_payload(payload: bytes) -> pl.DataFrame:
    """The frame of a payload; raises ValueError for one that is damaged."""
    if payload[: len(_MAGIC)] == _MAGIC and len(payload) > _HEAD.size:
        content = memoryview(payload)[_HEAD.size :]
        if zlib.crc32(content) == _HEAD.unpack_from(payload)[1]:
            return pl.read_ipc_stream(io.BytesIO(content))
    elif payload[: len(_WITHOUT_CHECKSUM)] == _WITHOUT_CHECKSUM:
        return _validated(payload)
    raise ValueError(f"the checksum is wrong, or it is none ({len(payload)} bytes: {payload[:16]!r})")


def _validated(payload: bytes) -> pl.DataFrame:
    """The frame of a payload of a version without checksums, in a delta from before.

    Arrow's own reader survives damage.
    """
    with pa.ipc.open_stream(payload) as stream:
        table = stream.read_all()
    table.validate(full=True)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_row(row: EdgeRow) -> pl.DataFrame:
    """The frame of a row.

    Raises:
        SerializationError: `EDGE_ROW_DAMAGED`.
    """
    try:
        return from_payload(row.payload)
    except BaseException as error:
        if not is_fault(error):
            raise
        raise SerializationError(
            "EDGE_ROW_DAMAGED",
            f"a row between tasks arrived damaged: {said(error)}; running the epoch again is safe. If it happens "
            "again, check the memory and the disks of the machines (spark.local.dir, checkpoint.dir)",
            edge=row.edge,
            origin=row.origin,
            task=row.task,
            row=row.seq,
        ) from error


def is_typed(frame: pl.DataFrame) -> bool:
    """Whether a frame has typed columns; else it has serialized records, made by EdgeBuffer."""
    return KEY in frame.columns


def raw_records(edge: str, partition: int, frame: pl.DataFrame, offsets: npt.NDArray[np.int64]) -> RecordBatch:
    """Serialized records of a frame made by EdgeBuffer, under these offsets."""
    headers = read_headers(frame[EDGE_HEADERS]) if EDGE_HEADERS in frame.columns else None
    return RecordBatch(
        edge,
        partition,
        offsets,
        frame["ts"].to_numpy(),
        frame["key"].to_list(),
        frame["value"].to_list(),
        headers,
    )


def headers_series(headers: Sequence[Headers]) -> pl.Series:
    """Headers as a column."""
    rows = [[{"name": name, "value": value} for name, value in record] for record in headers]
    return pl.Series(EDGE_HEADERS, rows, dtype=_HEADERS_TYPE)


def read_headers(column: pl.Series) -> list[Headers]:
    """Headers of a column made by `headers_series`."""
    return [tuple((h["name"], h["value"]) for h in row) if row is not None else () for row in column.to_list()]


def strip_order(frame: pl.DataFrame, fields: frozenset[str] | None) -> pl.DataFrame:
    """The frame without order and header-index columns and without the fields that no node looks at.

    What crosses an edge.
    """
    unwanted = {*order_columns(frame), HEADERS}
    if fields is not None:
        values = {name: name.removeprefix(OLD) for name in frame.columns if name.startswith(OLD) or name[:2] != "__"}
        unwanted |= {name for name, field in values.items() if field not in fields}
    return frame.select(name for name in frame.columns if name not in unwanted)


class ReceivedRows:
    """Rows by the task and the edge that they are for; payloads beyond the space's share are on disk.

    Args:
        rows: that have arrived.
        space: closed by `close`; `None`: all rows stay in memory.
    """

    def __init__(self, rows: Iterable[EdgeRow] = (), space: EpochSpace | None = None) -> None:
        self._space = space
        self._in_memory_bytes = 0
        self._payloads: dict[str, dict[tuple[str, str], list[tuple[int, _Payload]]]] = {}
        for row in rows:
            self.add(row)

    def add(self, row: EdgeRow) -> None:
        """One more; raises StateError `DISK_FULL`."""
        payload: _Payload = row.payload
        if self._space is None or self._in_memory_bytes + row.size_bytes <= self._space.share:
            self._in_memory_bytes += row.size_bytes
        else:
            payload = partial(self._space.file.read, self._space.file.append(row.payload))
            self._in_memory_bytes += _STORED_BYTES
        self._payloads.setdefault(row.task, {}).setdefault((row.edge, row.origin), []).append((row.seq, payload))

    def inputs_of(self, task: str) -> dict[tuple[str, str], Iterator[EdgeRow]]:
        """The rows for a task by edge and origin, ascending by `seq`; each is read from disk when its turn comes."""
        return {
            (edge, origin): self._read(task, edge, origin, payloads)
            for (edge, origin), payloads in self._payloads.get(task, {}).items()
        }

    def close(self) -> None:
        """Give the space back; payloads on disk cannot be read any more."""
        if self._space is not None:
            self._space.close()

    def _read(self, task: str, edge: str, origin: str, payloads: list[tuple[int, _Payload]]) -> Iterator[EdgeRow]:
        for seq, payload in sorted(payloads, key=itemgetter(0)):
            yield EdgeRow(task, edge, origin, seq, payload if isinstance(payload, bytes) else payload())
