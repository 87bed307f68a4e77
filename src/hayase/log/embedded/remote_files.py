"""Old records as Parquet files on an fsspec path.

One file, a part, holds consecutive records of one partition: the columns `offset`, `timestamp_ms`, `key`, `value` and
`headers`, ascending by offset, in row groups that can be read alone. Other programs can read it; no program may change
it. Credentials and endpoints are fsspec's own affair (its configuration files, environment variables, or those of the
cloud's client), so that none are stored with a topic.

The log keeps a CRC32C of each row group and of the footer (`remote_part`). Bytes are read from the file, compared, and
only then given to the Parquet reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crc32c import crc32c

from hayase.core.errors import ConfigError, LogError
from hayase.core.private_files import make_folder, open_file
from hayase.core.records import Headers
from hayase.log.embedded.blob import Rows
from hayase.log.embedded.remote_part import CheckedRange
from hayase.storage.disk_full import is_out_of_space

if TYPE_CHECKING:
    import fsspec
    import pyarrow as pa


class PartGoneError(LogError):
    """The file of a part is not there (any more)."""


def checked_url(url: str) -> str:
    """The URL, absolute if it is a local path.

    Raises:
        ConfigError: `INVALID_SETTING`: fsspec has no file system for it, or its package is not installed.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    try:
        files, path = fsspec.core.url_to_fs(url)
    except Exception as error:  # each file system has errors of its own
        raise ConfigError(
            "INVALID_SETTING",
            f"remote.storage.url={url!r} cannot be used: {error}. It is a folder or an fsspec URL, e.g. /data/old or "
            "s3://bucket/topics; the package of its file system must be installed and configured",
            setting="remote.storage.url",
        ) from error
    return str(path) if isinstance(files, LocalFileSystem) else url.rstrip("/")


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A file that was just written: its size and checksums."""

    bytes: int
    footer: CheckedRange
    groups: tuple[CheckedRange, ...]


def write_part(url: str, batches: Iterator[Rows], *, sync: bool) -> WrittenPart:
    """Write a part and look at it again.

    Args:
        url: where; nothing is there yet.
        batches: one row group each, at least one; offsets are those of the partition.
        sync: whether the file is on the disk on return, if it is on a local disk at all.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`; `DISK_FULL`, on a local disk.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    groups = []
    with translated(url):
        files, path = open_files(url)
        _make_place(files, path)
        with files.open(path, "wb") as file:
            sink = _ChecksummedSink(file)
            writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), _schema(), compression="zstd")
            with writer:
                sink.checked_range()  # the magic number is in no row group
                for rows in batches:
                    writer.write_table(_table(rows), row_group_size=len(rows.values))
                    groups.append(sink.checked_range())
            footer = sink.checked_range()
        if sync:
            _sync_local(files, path)
        size = int(files.size(path))
        with files.open(path, "rb") as file:
            file.seek(footer.start)
            if size != footer.start + footer.length or crc32c(file.read(footer.length)) != footer.crc:
                raise OSError("what was written does not come back")
        return WrittenPart(size, footer, tuple(groups))


class _ChecksummedSink:
    """A file to write to, which tells the checksum of what was written since it was last asked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = self._end = self._crc = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        written = memoryview(data)
        self._file.write(written)
        self._crc = crc32c(written, self._crc)
        self._end += written.nbytes
        return written.nbytes

    def tell(self) -> int:
        return self._end

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def checked_range(self) -> CheckedRange:
        checked = CheckedRange(self._start, self._end - self._start, self._crc)
        self._start, self._crc = self._end, 0
        return checked


def delete_file(url: str) -> None:
    """Remove a file; nothing happens if there is none.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`.
    """
    with translated(url):
        files, path = open_files(url)
        try:
            files.rm_file(path)
        except FileNotFoundError:
            return


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Errors of a file system in the log's words."""
    try:
        yield
    except LogError:
        raise
    except FileNotFoundError as error:
        raise PartGoneError(
            "REMOTE_PART_GONE",
            f"{url} is not there, but the log counts on it: it was removed, or this process sees another file system",
        ) from error
    except Exception as error:  # each file system has errors of its own
        if isinstance(error, OSError) and is_out_of_space(error.errno):
            raise LogError(
                "DISK_FULL",
                f"{url} could not be written: no space, or a quota or file size limit was hit ({error}). Nothing is "
                "lost, the records stay where they were: make space there, and the next cleaning goes on",
                location=url.rpartition("/")[0],
            ) from error
        raise LogError(
            "REMOTE_STORAGE_FAILED", f"{url} could not be used: {error}. Nothing is lost; trying again is safe"
        ) from error


def open_files(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of a URL, and the path there."""
    import fsspec

    files, path = fsspec.core.url_to_fs(url)
    return files, str(path)


def _make_place(files: fsspec.AbstractFileSystem, path: str) -> None:
    """The folder of a file; where the file system is a local one also the file, which is to be private."""
    if _is_local(files):
        make_folder(Path(path).parent)
        os.close(open_file(Path(path), os.O_WRONLY))
    else:
        files.makedirs(path.rpartition("/")[0], exist_ok=True)


def _is_local(files: object) -> bool:
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(files, LocalFileSystem)


def _sync_local(files: object, path: str) -> None:
    if not _is_local(files):
        return
    for place in (Path(path), *list(Path(path).parents)[:3]):  # the file, and the folders that may be new
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp_ms", pa.int64(), nullable=False),
            pa.field("key", pa.large_binary()),
            pa.field("value", pa.large_binary()),
            pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.large_binary())]))),
        ]
    )


def _table(rows: Rows) -> pa.Table:
    import pyarrow as pa

    schema = _schema()
    headers: Sequence[Headers] = rows.headers if rows.headers is not None else [()] * len(rows.values)
    columns = [
        pa.array(rows.offsets, schema.field("offset").type),
        pa.array(rows.timestamps_ms, schema.field("timestamp_ms").type),
        pa.array(rows.keys, schema.field("key").type),
        pa.array(rows.values, schema.field("value").type),
        pa.array(
            [[{"key": key, "value": value} for key, value in record] for record in headers],
            schema.field("headers").type,
        ),
    ]
    return pa.Table.from_arrays(columns, schema=schema)
