"""What the log knows of a Parquet file with old records."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from hayase.core.decoding import decode_msgpack


class CheckedRange(msgspec.Struct, frozen=True, array_like=True):
    """A range of a file's bytes and its CRC32C."""

    start: int
    length: int
    crc: int


class _Row(msgspec.Struct, frozen=True, array_like=True):
    end: int
    url: str
    bytes: int
    records: int
    max_timestamp_ms: int
    footer: CheckedRange | None = None
    groups: tuple[CheckedRange, ...] = ()


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A file that holds the records of the offsets `[base, end)`.

    Attributes:
        base: the first offset.
        end: the offset behind the last.
        url: of the file.
        bytes: its size.
        records: how many.
        max_timestamp_ms: their largest timestamp.
        footer: the end of the file, from the metadata on; `None` where an earlier version wrote the file.
        groups: the row groups; none where an earlier version wrote the file.
    """

    base: int
    end: int
    url: str
    bytes: int
    records: int
    max_timestamp_ms: int
    footer: CheckedRange | None = None
    groups: tuple[CheckedRange, ...] = ()


def remote_row(part: RemotePart) -> bytes:
    """All of a part but the base offset, which is in the key."""
    row = _Row(part.end, part.url, part.bytes, part.records, part.max_timestamp_ms, part.footer, part.groups)
    return msgspec.msgpack.encode(row)


def remote_part(base: int, raw: bytes) -> RemotePart:
    """The part that begins at an offset, from its row; raises msgspec.MsgspecError."""
    row = decode_msgpack(raw, as_type=_Row)
    return RemotePart(
        base, row.end, row.url, row.bytes, row.records, row.max_timestamp_ms, row.footer, row.groups
    )  # fmt: skip
