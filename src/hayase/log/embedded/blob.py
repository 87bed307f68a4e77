"""Record batches as blobs.

A blob is a header and a payload: the timestamps as little-endian 64-bit integers, then keys, values and headers as
one MessagePack array, compressed as a whole. Its base offset is in the key it is stored under, so that it can be
made before it is known where it goes. As it is appended its records have consecutive offsets. What compaction rewrites
has gaps: there the payload also holds each record's distance from the base offset, as a 32-bit integer behind the
timestamps, and the header says how many offsets the blob covers and when its tombstones may go. The header may also say
that all records have the time of the append.

The header has two checksums (CRC32C): of the payload as it is stored, and, made when the blob is appended, of the
header itself and the key. So a blob is taken for what it is only under the key it was written under. Both are compared
whenever a header or a payload is read. Formats 1 and 2, which earlier versions wrote, have none: there only what is
impossible is found. Bytes that are not 0 in the new format are 0 in them, so that damage does not turn the one into the
other.

Why not Arrow IPC: readers want Python lists of bytes. Measured for 10,000 records of 108 + 10 bytes with LZ4:
MessagePack 145 ns a record to write and 93 to read, Arrow IPC 205 and 102 (210 for slices of one buffer), and 10 %
to 25 % smaller because keys, values and timestamps share one dictionary.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from hayase.core.errors import LogError, ProductionError
from hayase.core.records import Headers
from hayase.log.partitioning import PartitionRows
from hayase.log.protocol import Int64Array

MAX_RECORDS = 65_536
"""Records of a blob; longer batches become several."""
MAX_BYTES = 8 << 20
"""Bytes of a blob before compression, except where a single record is larger."""
APPENDED_BYTES = 1 << 20
"""About what a blob of a long append has before compression: a reader of one record unpacks its whole blob."""
_SAMPLE = 64
_ENCODED_BYTES = 12
"""About what a record takes beside its key, value and headers: its time, and their lengths."""

Stored = bytes | bytearray | memoryview
"""A blob; a view of it is valid as long as the transaction."""
Payload = bytes | pa.Buffer
"""The content of a blob, unpacked."""

_LARGEST_RECORD = 1 << 30
_LARGEST_PAYLOAD = _LARGEST_RECORD + (1 << 24)
_PLAIN, _EXTENDED, _CHECKED = 1, 2, 3
_HEADER = struct.Struct("<BBHIQq")  # version, codec, 0, records, payload bytes before compression, largest timestamp
_MORE = struct.Struct("<BxxxIq")  # format 2, behind the header: flags, offsets covered, delete horizon
# Format 3: version, codec, flags, mark; records, payload bytes and largest timestamp as before; offsets covered, delete
# horizon, checksum of the payload. Behind it the checksum of header and key.
_CHECKED_HEADER = struct.Struct("<BBBBIQqIqI")
_SEALED_HEADER = struct.Struct("<BBBBIQqIqII")
_SEAL = struct.Struct("<I")
_SEAL_AT = _CHECKED_HEADER.size
_PAYLOAD_AT = _SEALED_HEADER.size
_PAYLOADS_AT = {_PLAIN: _HEADER.size, _EXTENDED: _HEADER.size + _MORE.size, _CHECKED: _PAYLOAD_AT}
_MARK = 0xC3
_HAS_GAPS, _APPEND_TIME = 1, 2
NO_HORIZON = -1
_BASE = struct.Struct(">Q")
_CODECS = {"uncompressed": 0, "lz4": 1, "zstd": 2, "gzip": 3, "snappy": 4}
_CODEC_NAMES = {1: "lz4_raw", 2: "zstd", 3: "gzip", 4: "snappy"}

_encoder = msgspec.msgpack.Encoder()
_HeadersOfOne = tuple[tuple[str, bytes | None], ...]
_decoder = msgspec.msgpack.Decoder(tuple[list[bytes | None], list[bytes | None], list[_HeadersOfOne] | None])
# Headers are most of the work: of a part, those of the other records are left encoded.
_part_decoder = msgspec.msgpack.Decoder(tuple[list[bytes | None], list[bytes | None], list[msgspec.Raw] | None])
_headers_decoder = msgspec.msgpack.Decoder(_HeadersOfOne)


@dataclass(frozen=True, slots=True)
class Blob:
    """An encoded batch, not yet anywhere: `seal` makes it fit for a key."""

    data: bytearray
    records: int
    max_timestamp_ms: int

    def load(self) -> Blob:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True)
class BlobLocation:
    """The partition that blobs are of: for checks and for errors.

    Attributes:
        file: of the log.
        topic: name of the topic.
        partition: number.
        key: what the keys of its blobs begin with.
    """

    file: str
    topic: str
    partition: int
    key: bytes

    def stored_under(self, base: int) -> bytes:
        """The key of the blob with that base offset."""
        return self.key + _BASE.pack(base)

    def damaged(self, base: int, why: str) -> LogError:
        """`LOG_DAMAGED` of the blob with that base offset."""
        return LogError(
            "LOG_DAMAGED",
            f"the stored batch of topic {self.topic!r}, partition {self.partition}, that begins at offset {base} in "
            f"{self.file} is damaged: {why}. None of its records was handed out. Check the disk and restore the log's "
            "folder from a copy; or give up the records up to and including that batch: Log.delete_records with an "
            "offset behind it, then go on from there",
            location=self.file,
            topic=self.topic,
            partition=self.partition,
            offset=base,
        )

    def missing(self, start: int, end: int) -> LogError:
        """`LOG_DAMAGED` of the records in `[start, end)`, which cannot be found."""
        return LogError(
            "LOG_DAMAGED",
            f"the records of topic {self.topic!r}, partition {self.partition}, from offset {start} to {end - 1} are "
            f"missing in {self.file}, and nothing has removed them: a page of the file is damaged. Check the disk and "
            "restore the log's folder from a copy; or give up the records up to there: Log.delete_records with offset "
            f"{end}, then go on from there",
            location=self.file,
            topic=self.topic,
            partition=self.partition,
            offset=start,
        )


class BlobHeader(NamedTuple):
    """What is known of a blob without unpacking it.

    Attributes:
        version: of the format.
        codec: number of the compression.
        records: how many.
        payload_bytes: size before compression.
        max_timestamp_ms: the largest timestamp.
        span: how many offsets the blob covers, gaps included.
        delete_horizon_ms: when its tombstones may be removed; `NO_HORIZON` if it was never compacted or has none.
        has_gaps: whether the payload holds offsets.
        append_time: whether every record has the largest timestamp, whatever the payload says.
        payload_crc: CRC32C of the stored payload; `None` before format 3.
    """

    version: int
    codec: int
    records: int
    payload_bytes: int
    max_timestamp_ms: int
    span: int
    delete_horizon_ms: int = NO_HORIZON
    has_gaps: bool = False
    append_time: bool = False
    payload_crc: int | None = None


@dataclass(slots=True)
class Rows:
    """Decoded records, ascending by offset."""

    offsets: Int64Array
    timestamps_ms: Int64Array
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None


def encode(rows: PartitionRows, compression: str, topic: str) -> Iterator[Blob]:
    """The rows as one blob, or several of about `APPENDED_BYTES`, none above `MAX_RECORDS` or `MAX_BYTES`.

    Args:
        rows: at least one.
        compression: `uncompressed`, `lz4`, `zstd`, `gzip` or `snappy`.
        topic: for the error.

    Raises:
        ProductionError: `RECORD_REFUSED`: a record has more than 1 GiB.
    """
    step = min(MAX_RECORDS, _records_of_a_blob(rows))
    for start in range(0, len(rows), step):
        part = rows if len(rows) <= step else rows[start : start + step]
        yield from _encode(part, compression, topic)


def _records_of_a_blob(rows: PartitionRows) -> int:
    """How many records make a blob of the size wanted, by the first ones."""
    if len(rows) <= _SAMPLE:
        return _SAMPLE
    sample = rows[:_SAMPLE]
    headers = (each for headers in sample.headers or () for each in headers)
    size = sum(len(data) for data in (*sample.keys, *sample.values) if data is not None)
    size += sum(len(name) + len(value or b"") for name, value in headers)
    return max(1, _SAMPLE * APPENDED_BYTES // (size + _ENCODED_BYTES * _SAMPLE))


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
    yield _packed(payload, compression, len(rows), int(timestamps.max()), len(rows))


def encode_with_gaps(rows: Rows, base: int, span: int, compression: str, delete_horizon_ms: int) -> Blob:
    """What is left of one or several blobs, as one.

    Args:
        rows: at least one.
        base: the offset under which the blob is stored.
        span: how many offsets the blob covers.
        compression: as for `encode`.
        delete_horizon_ms: when its tombstones may go, or `NO_HORIZON`.
    """
    payload = (
        rows.timestamps_ms.astype("<i8").tobytes()
        + (rows.offsets - base).astype("<u4").tobytes()
        + _encoder.encode((rows.keys, rows.values, rows.headers))
    )
    largest = int(rows.timestamps_ms.max())
    return _packed(payload, compression, len(rows.values), largest, span, delete_horizon_ms, _HAS_GAPS)


def at_append_time(blob: Blob, now_ms: int) -> Blob:
    """The blob with another timestamp for all its records (`message.timestamp.type=LogAppendTime`)."""
    data = bytearray(blob.data)
    fields = list(_CHECKED_HEADER.unpack_from(data))
    fields[2], fields[6] = fields[2] | _APPEND_TIME, now_ms
    _CHECKED_HEADER.pack_into(data, 0, *fields)
    return Blob(data, blob.records, now_ms)


def seal(blob: Blob, stored_under: bytes) -> bytearray:
    """The blob's bytes for that key; a blob may be sealed again, for another."""
    data = blob.data
    _SEAL.pack_into(data, _SEAL_AT, crc32c(stored_under + data[:_SEAL_AT]))
    return data


def _packed(
    payload: bytes,
    compression: str,
    records: int,
    largest_ms: int,
    span: int,
    horizon_ms: int = NO_HORIZON,
    flags: int = 0,
) -> Blob:
    number = _CODECS[compression]
    packed = _codec(number).compress(payload, asbytes=True) if number else payload
    if len(packed) >= len(payload):
        number, packed = 0, payload
    data = bytearray(_PAYLOAD_AT)
    _CHECKED_HEADER.pack_into(
        data, 0, _CHECKED, number, flags, _MARK, records, len(payload), largest_ms, span, horizon_ms, crc32c(packed)
    )
    data += packed
    return Blob(data, records, largest_ms)


def read_header(data: Stored, where: BlobLocation, base: int) -> BlobHeader:
    """The header of a blob.

    Args:
        data: the blob.
        where: it was found.
        base: the base offset it was found under.

    Raises:
        LogError: `LOG_FORMAT`: written by a newer version; `LOG_DAMAGED`: it is not what was written there.
    """
    if len(data) < _HEADER.size:
        raise where.damaged(base, f"it ends after {len(data)} bytes")
    version = data[0]
    if version == _CHECKED:
        if len(data) < _PAYLOAD_AT or data[3] != _MARK:
            raise where.damaged(base, f"its {len(data)} bytes do not begin as a batch does")
        computed = crc32c(where.stored_under(base) + data[:_SEAL_AT])
        header, sealed = _checked_header(data)
        if sealed != computed:
            raise where.damaged(base, f"the checksum of its header is {computed:08x}, not {sealed:08x}")
        return header
    if version not in (_PLAIN, _EXTENDED):
        if data[3] == _MARK and version > _CHECKED:
            raise LogError(
                "LOG_FORMAT",
                f"a record batch of format {version}; this version reads up to {_CHECKED}: update Hayase (or, if no "
                "newer version ever wrote to this log, the batch is damaged: restore the log's folder from a copy)",
                location=where.file,
                topic=where.topic,
                partition=where.partition,
                offset=base,
            )
        raise where.damaged(base, f"there is no format {version}")
    header = _unchecked_header(data, where, base)
    if not (
        0 < header.records <= header.span
        and 8 * header.records < header.payload_bytes <= _LARGEST_PAYLOAD
        and (header.codec == 0 or header.codec in _CODEC_NAMES)
    ):
        raise where.damaged(base, "its header says what is impossible")
    return header


def _checked_header(data: Stored) -> tuple[BlobHeader, int]:
    """A header of format 3 and its checksum."""
    _, codec, flags, _, records, payload_bytes, largest, span, horizon, payload_crc, sealed = (
        _SEALED_HEADER.unpack_from(data)
    )
    gaps, append_time = flags & _HAS_GAPS != 0, flags & _APPEND_TIME != 0
    header = BlobHeader(
        _CHECKED, codec, records, payload_bytes, largest, span, horizon, gaps, append_time, payload_crc
    )  # fmt: skip
    return header, sealed


def _unchecked_header(data: Stored, where: BlobLocation, base: int) -> BlobHeader:
    version, codec, nothing, records, payload_bytes, largest = _HEADER.unpack_from(data)
    if nothing or (version == _EXTENDED and len(data) < _HEADER.size + _MORE.size):
        raise where.damaged(base, f"its {len(data)} bytes do not begin as a batch does")
    if version == _PLAIN:
        return BlobHeader(version, codec, records, payload_bytes, largest, records)
    flags, span, horizon = _MORE.unpack_from(data, _HEADER.size)
    if flags & ~(_HAS_GAPS | _APPEND_TIME):
        raise where.damaged(base, f"there are no flags {flags:#x}")
    return BlobHeader(
        version,
        codec,
        records,
        payload_bytes,
        largest,
        span,
        horizon,
        bool(flags & _HAS_GAPS),
        bool(flags & _APPEND_TIME),
    )


def unpack(data: Stored, header: BlobHeader, where: BlobLocation, base: int) -> Payload:
    """The payload of a blob as a buffer of its own, so that `data` may be a view into the map.

    Raises:
        LogError: `LOG_DAMAGED`: it is not what was written.
    """
    packed = memoryview(data)[_PAYLOADS_AT[header.version] :]
    if header.payload_crc is not None and (computed := crc32c(packed)) != header.payload_crc:
        raise where.damaged(base, f"the checksum of its content is {computed:08x}, not {header.payload_crc:08x}")
    if header.codec == 0:
        payload: Payload = bytes(packed)
    else:
        try:
            payload = _codec(header.codec).decompress(packed, header.payload_bytes)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise where.damaged(base, f"it cannot be decompressed ({error})") from error
    if len(payload) != header.payload_bytes:
        raise where.damaged(base, f"it has {len(payload)} bytes of content, not {header.payload_bytes}")
    return payload


def timestamps(payload: Payload, header: BlobHeader) -> Int64Array:
    """Only the timestamps of an unpacked payload."""
    if header.append_time:
        return np.full(header.records, header.max_timestamp_ms, dtype=np.int64)
    return np.frombuffer(memoryview(payload), dtype="<i8", count=header.records).astype(np.int64)


def decode(payload: Payload, header: BlobHeader, where: BlobLocation, base: int) -> Rows:
    """The rows of an unpacked payload of the blob at that base offset.

    Raises:
        LogError: `LOG_DAMAGED`: it is not what was written.
    """
    count = header.records
    packed = memoryview(payload)[(12 if header.has_gaps else 8) * count :]
    try:
        keys, values, headers = _decoder.decode(packed)
        rows = Rows(offsets(payload, header, base), timestamps(payload, header), keys, values, headers)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise where.damaged(base, f"its content cannot be decoded ({error})") from error
    if len(keys) != count or len(values) != count or (headers is not None and len(headers) != count):
        raise where.damaged(base, f"it has {len(keys)} keys and {len(values)} values for {count} records")
    if header.has_gaps and header.payload_crc is None and not _ascends(rows.offsets, base, header.span):
        raise where.damaged(base, "its offsets do not ascend within what it covers")
    return rows


def decode_part(payload: Payload, header: BlobHeader, where: BlobLocation, base: int, start: int, end: int) -> Rows:
    """The rows of offsets in `[start, end)` alone; for a few of a large blob a tenth of the work of all.

    Raises:
        LogError: `LOG_DAMAGED`: it is not what was written.
    """
    every = offsets(payload, header, base)
    low, high = np.searchsorted(every, [start, end]).tolist()
    packed = memoryview(payload)[(12 if header.has_gaps else 8) * header.records :]
    try:
        keys, values, raw = _part_decoder.decode(packed)
        if {len(keys), len(values), len(keys if raw is None else raw)} != {header.records}:
            raise ValueError(f"{len(keys)} keys and {len(values)} values for {header.records} records")
        headers = [_headers_decoder.decode(each) for each in raw[low:high]] if raw is not None else []
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise where.damaged(base, f"its content cannot be decoded ({error})") from error
    times = timestamps(payload, header)[low:high]
    return Rows(every[low:high], times, keys[low:high], values[low:high], headers if any(headers) else None)


def _ascends(offsets: Int64Array, base: int, span: int) -> bool:
    return bool(base <= offsets[0] and offsets[-1] < base + span and (np.diff(offsets) > 0).all())


def offsets(payload: Payload, header: BlobHeader, base: int) -> Int64Array:
    """Only the offsets of an unpacked payload of the blob at that base offset."""
    if not header.has_gaps:
        return np.arange(base, base + header.records, dtype=np.int64)
    gaps = np.frombuffer(memoryview(payload), dtype="<u4", count=header.records, offset=8 * header.records)
    return base + gaps.astype(np.int64)


def joined(parts: list[Rows]) -> Rows:
    """Rows of several blobs, one after the other."""
    if len(parts) == 1:
        return parts[0]
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Headers] = []
    for part in parts:
        keys += part.keys
        values += part.values
        headers += part.headers if part.headers is not None else [()] * len(part.values)
    some = any(part.headers is not None for part in parts)
    return Rows(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps_ms for part in parts]),
        keys,
        values,
        headers if some else None,
    )


@cache
def _codec(number: int) -> pa.Codec:
    return pa.Codec(_CODEC_NAMES[number])
