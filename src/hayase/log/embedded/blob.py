"""Record batches as blobs.

A blob is a header and a payload: the timestamps as little-endian 64-bit integers, then keys, values and headers as
one MessagePack array, compressed as a whole. Its base offset is in the key it is stored under, so that it can be
made before it is known where it goes; its records have consecutive offsets.

Why not Arrow IPC: readers want Python lists of bytes. Measured for 10,000 records of 108 + 10 bytes with LZ4:
MessagePack 145 ns a record to write and 93 to read, Arrow IPC 205 and 102 (210 for slices of one buffer), and 10 %
to 25 % smaller because keys, values and timestamps share one dictionary.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hayase.core.errors import LogError, ProductionError
from hayase.core.records import Headers
from hayase.log.partitioning import PartitionRows
from hayase.log.protocol import Int64Array

MAX_RECORDS = 65_536
"""Records of a blob; longer batches become several."""
MAX_BYTES = 8 << 20
"""Bytes of a blob before compression, except where a single record is larger."""

_LARGEST_RECORD = 1 << 30
_VERSION = 1
_HEADER = struct.Struct("<BBxxIQq")  # version, codec, records, payload bytes before compression, largest timestamp
_CODECS = {"uncompressed": 0, "lz4": 1, "zstd": 2, "gzip": 3, "snappy": 4}
_CODEC_NAMES = {1: "lz4_raw", 2: "zstd", 3: "gzip", 4: "snappy"}

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(
    tuple[list[bytes | None], list[bytes | None], list[tuple[tuple[str, bytes | None], ...]] | None]
)


@dataclass(frozen=True, slots=True)
class Blob:
    """An encoded batch, not yet anywhere."""

    data: bytes
    records: int
    max_timestamp_ms: int


class BlobHeader(NamedTuple):
    """What is known of a blob without unpacking it."""

    version: int
    codec: int
    records: int
    payload_bytes: int
    max_timestamp_ms: int


@dataclass(slots=True)
class Rows:
    """A decoded blob."""

    timestamps_ms: Int64Array
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None


def encode(rows: PartitionRows, compression: str, topic: str) -> Iterator[Blob]:
    """The rows as one blob, or several if they are more than `MAX_RECORDS` or `MAX_BYTES`.

    Args:
        rows: at least one.
        compression: `uncompressed`, `lz4`, `zstd`, `gzip` or `snappy`.
        topic: for the error.

    Raises:
        ProductionError: `RECORD_REFUSED`: a record has more than 1 GiB.
    """
    for start in range(0, len(rows), MAX_RECORDS):
        part = rows if len(rows) <= MAX_RECORDS else rows[start : start + MAX_RECORDS]
        yield from _encode(part, compression, topic)


def _encode(rows: PartitionRows, compression: str, topic: str) -> Iterator[Blob]:
    headers = rows.headers if rows.headers is not None and any(rows.headers) else None
    timestamps = rows.timestamps_ms
    payload = timestamps.astype("<i8").tobytes() + _encoder.encode((rows.keys, rows.values, headers))
    if len(payload) > MAX_BYTES and len(rows) > 1:
        half = len(rows) // 2
        yield from _encode(rows[:half], compression, topic)
        yield from _encode(rows[half:], compression, topic)
        return
    if len(payload) > _LARGEST_RECORD:
        raise ProductionError("RECORD_REFUSED", f"a record of {len(payload)} bytes; at most 1 GiB", topic=topic)
    number = _CODECS[compression]
    packed = _codec(number).compress(payload, asbytes=True) if number else payload
    if len(packed) >= len(payload):
        number, packed = 0, payload
    largest = int(timestamps.max())
    header = _HEADER.pack(_VERSION, number, len(rows), len(payload), largest)
    yield Blob(header + packed, len(rows), largest)


def read_header(data: Any) -> BlobHeader:
    """The header of a blob.

    Raises:
        LogError: `LOG_FORMAT`: written by a newer version.
    """
    header = BlobHeader(*_HEADER.unpack_from(data))
    if header.version != _VERSION:
        raise LogError(
            "LOG_FORMAT", f"a record batch of format {header.version}; this version reads {_VERSION}: update Hayase"
        )
    return header


def unpack(data: Any) -> Any:
    """The payload of a blob as a buffer of its own, so that `data` may be a view into the map."""
    header = read_header(data)
    packed = memoryview(data)[_HEADER.size :]
    if header.codec == 0:
        return bytes(packed)
    return _codec(header.codec).decompress(packed, header.payload_bytes)


def timestamps(payload: Any, records: int) -> Int64Array:
    """Only the timestamps of an unpacked payload."""
    return np.frombuffer(payload, dtype="<i8", count=records).astype(np.int64)


def decode(payload: Any, records: int) -> Rows:
    """The rows of an unpacked payload."""
    keys, values, headers = _decoder.decode(memoryview(payload)[8 * records :])
    return Rows(timestamps(payload, records), keys, values, headers)


@cache
def _codec(number: int) -> Any:
    return pa.Codec(_CODEC_NAMES[number])
