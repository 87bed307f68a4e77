"""Reading old records from Parquet files, a row group at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from crc32c import crc32c

from hayase.core.errors import LogError
from hayase.core.records import TopicPartition
from hayase.log.embedded.blob import Rows
from hayase.log.embedded.remote_files import open_files, translated
from hayase.log.embedded.remote_part import CheckedRange, RemotePart
from hayase.log.protocol import Int64Array

if TYPE_CHECKING:
    import pyarrow as pa

_TAIL_BYTES = 8
"""Behind a file's metadata: its length, a magic number."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: where its bytes are, its last offset and its largest timestamp."""

    start: int
    length: int
    crc: int | None
    last_offset: int
    max_timestamp_ms: int


class PartReader:
    """Reads parts; keeps the last one open. Not thread-safe."""

    def __init__(self) -> None:
        self._file: _PartFile | None = None

    def read(self, partition: TopicPartition, part: RemotePart, start: int, end: int) -> Iterator[Rows]:
        """The records with `start <= offset < end`, a row group at a time; offsets are those of the partition.

        Raises:
            PartGoneError: `REMOTE_PART_GONE`: there is no such file.
            LogError: `REMOTE_STORAGE_FAILED`: it cannot be read; `LOG_DAMAGED`: it is not what was written.
        """
        file = self._opened(partition, part)
        for number in range(file.group_of(start), len(file.groups)):
            rows = file.read(number, start, end)
            if rows.values:
                yield rows
            if file.groups[number].last_offset >= end - 1:
                return

    def first_at(self, partition: TopicPartition, part: RemotePart, start: int, time_ms: int) -> int | None:
        """The first offset from `start` whose timestamp is at or after the time; raises as `read`."""
        file = self._opened(partition, part)
        for number in range(file.group_of(start), len(file.groups)):
            if file.groups[number].max_timestamp_ms < time_ms:
                continue
            offsets, timestamps_ms = file.times(number)
            matching = offsets[(offsets >= start) & (timestamps_ms >= time_ms)]
            if len(matching):
                return int(matching[0])
        return None

    def close(self) -> None:
        """Let go of the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self, partition: TopicPartition, part: RemotePart) -> _PartFile:
        if self._file is None or self._file.part != part:
            self.close()
            self._file = _PartFile(partition, part)
        return self._file


class _PartFile:
    """The open file of a part, its metadata read."""

    def __init__(self, partition: TopicPartition, part: RemotePart) -> None:
        import pyarrow.parquet as pq

        self.part = part
        self._partition = partition
        with translated(part.url):
            files, path = open_files(part.url)
            self._stream = files.open(path, "rb")
        try:
            start, footer = self._footer()
            with self._readable("metadata"):
                self._metadata = pq.read_metadata(_Piece(start, footer, part.bytes))
                self.groups = self._groups()
                self._lasts = np.array([group.last_offset for group in self.groups], dtype=np.int64)
            self._check_groups()
        except BaseException:
            self.close()
            raise

    def group_of(self, offset: int) -> int:
        """Number of the row group that holds an offset, or is next after it."""
        return int(np.searchsorted(self._lasts, offset))

    def read(self, number: int, start: int, end: int) -> Rows:
        """The rows of a row group with `start <= offset < end`."""
        table = self._table(number, None)
        low, high = np.searchsorted(table.column("offset").to_numpy(), [start, end]).tolist()
        with self._readable(f"row group {number}"):
            return _rows(table.slice(low, max(high - low, 0)))

    def times(self, number: int) -> tuple[Int64Array, Int64Array]:
        """Offsets and timestamps of a row group."""
        table = self._table(number, ["offset", "timestamp_ms"])
        return table.column("offset").to_numpy(), table.column("timestamp_ms").to_numpy()

    def _table(self, number: int, columns: list[str] | None) -> pa.Table:
        import pyarrow.parquet as pq

        group = self.groups[number]
        data = self._read(CheckedRange(group.start, group.length, 0), group.crc)
        with self._readable(f"row group {number}"):
            # In this thread alone: a Arrow thread that frees a Python buffer while the interpreter ends aborts it.
            piece = _Piece(group.start, data, self.part.bytes)
            file = pq.ParquetFile(piece, metadata=self._metadata, pre_buffer=False)
            table = file.read_row_group(number, columns=columns, use_threads=False)
            offsets = table.column("offset").to_numpy()
        low = self.groups[number - 1].last_offset if number else self.part.base - 1
        if not (len(offsets) and low < offsets[0] and offsets[-1] == group.last_offset and _ascends(offsets)):
            raise self._damaged(f"the offsets of row group {number} are not those that it should have")
        return table

    @contextmanager
    def _readable(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever Parquet makes of it
            raise self._damaged(f"its {what} cannot be read ({error})") from error

    def close(self) -> None:
        self._stream.close()

    def _footer(self) -> tuple[int, bytes]:
        """Where metadata begins, and what is there up to the end of the file."""
        if (footer := self.part.footer) is not None:
            return footer.start, self._read(footer, footer.crc)
        end = self.part.bytes
        tail = self._read(CheckedRange(max(end - _TAIL_BYTES, 0), min(end, _TAIL_BYTES), 0), None)
        start = end - _TAIL_BYTES - int.from_bytes(tail[:4], "little")
        if start < 0:
            raise self._damaged("its metadata is longer than the file")
        return start, self._read(CheckedRange(start, end - start, 0), None)

    def _read(self, wanted: CheckedRange, crc: int | None) -> bytes:
        with translated(self.part.url):
            self._stream.seek(wanted.start)
            data: bytes = self._stream.read(wanted.length)
        if len(data) != wanted.length:
            raise self._damaged(f"it ends at byte {wanted.start + len(data)}, not {self.part.bytes}")
        if crc is not None and (computed := crc32c(data)) != crc:
            raise self._damaged(
                f"the checksum of its bytes from {wanted.start} to {wanted.start + wanted.length} is {computed:08x}, "
                f"not {crc:08x}"
            )
        return data

    def _groups(self) -> list[_Group]:
        groups = []
        for number in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(number)
            columns = [group.column(index) for index in range(group.num_columns)]
            last, largest = columns[0].statistics.max, columns[1].statistics.max
            if self.part.groups:
                place = self.part.groups[number]
                groups.append(_Group(place.start, place.length, place.crc, last, largest))
            else:
                starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
                ends = [start + column.total_compressed_size for start, column in zip(starts, columns, strict=True)]
                groups.append(_Group(min(starts), max(ends) - min(starts), None, last, largest))
        return groups

    def _check_groups(self) -> None:
        """What metadata without a checksum must not say."""
        fits = all(group.start >= 0 and 0 < group.length <= self.part.bytes - group.start for group in self.groups)
        inside = len(self._lasts) and self.part.base <= self._lasts[0] and self._lasts[-1] < self.part.end
        if not fits or not inside or not _ascends(self._lasts) or self._metadata.num_rows != self.part.records:
            raise self._damaged("its metadata does not fit what was written")

    def _damaged(self, why: str) -> LogError:
        return LogError(
            "LOG_DAMAGED",
            f"{self.part.url}, which holds the offsets {self.part.base} to {self.part.end - 1} of topic "
            f"{self._partition.topic!r}, partition {self._partition.partition}, is damaged: {why}. Put the file back "
            f"from a copy; or give up its records: Log.delete_records with the offset {self.part.end}, then go on "
            "from there",
            location=self.part.url,
            topic=self._partition.topic,
            partition=self._partition.partition,
            offset=self.part.base,
        )


class _Piece(io.RawIOBase):
    """A file of which only one range is there; before it are zeros."""

    def __init__(self, start: int, data: bytes, size: int) -> None:
        self._start = start
        self._data = data
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        low = self._position
        high = self._size if size < 0 else min(low + size, self._size)
        start, end = (min(max(place - self._start, 0), len(self._data)) for place in (low, high))
        before = min(
            max(self._start - low, 0), high - low
        )  # Parquet reads more than the metadata, and looks at that only
        piece = bytes(before) + self._data[start:end]
        self._position += len(piece)
        return piece


def _ascends(offsets: Int64Array) -> bool:
    return bool((np.diff(offsets) > 0).all())


def _rows(table: pa.Table) -> Rows:
    headers = table.column("headers").to_pylist()
    return Rows(
        table.column("offset").to_numpy(),
        table.column("timestamp_ms").to_numpy(),
        table.column("key").to_pylist(),
        table.column("value").to_pylist(),
        [tuple((header["key"], header["value"]) for header in record) for record in headers] if any(headers) else None,
    )
