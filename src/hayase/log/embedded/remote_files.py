"""Old records as Parquet files on an fsspec path.

One file, a part, holds consecutive records of one partition: the columns `offset`, `timestamp_ms`, `key`, `value` and
`headers`, ascending by offset, in row groups that can be read alone. Other programs can read it; nobody may change it.
Credentials and endpoints are fsspec's own affair (its configuration files, environment variables, or those of the
cloud's client), so that none are stored with a topic.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hayase.core.errors import ConfigError, LogError
from hayase.core.records import Headers
from hayase.log.embedded.blob import Rows
from hayase.log.protocol import Int64Array


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A file that holds the records of the offsets `[base, end)`."""

    base: int
    end: int
    url: str
    bytes: int
    records: int
    max_timestamp_ms: int


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
            f"remote.storage.url={url!r} can not be used: {error}. It is a folder or an fsspec URL, e.g. /data/old or "
            "s3://bucket/topics; the package of its file system must be installed and configured",
            setting="remote.storage.url",
        ) from error
    return str(path) if isinstance(files, LocalFileSystem) else url.rstrip("/")


def write_part(url: str, batches: Iterator[Rows], *, sync: bool) -> int:
    """Write a part and look at it again; its size in bytes.

    Args:
        url: where; nothing is there yet.
        batches: one row group each, at least one; offsets are those of the partition.
        sync: whether the file is on the disk on return, if it is on a local disk at all.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`.
    """
    import pyarrow.parquet as pq

    count = 0
    with _translated(url):
        files, path = _open_files(url)
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        with files.open(path, "wb") as file:
            writer = pq.ParquetWriter(file, _schema(), compression="zstd")
            with writer:
                for rows in batches:
                    writer.write_table(_table(rows), row_group_size=len(rows.values))
                    count += len(rows.values)
        if sync:
            _sync_local(files, path)
        with files.open(path, "rb") as file:
            written = pq.ParquetFile(file).metadata.num_rows
        if written != count:
            raise OSError(f"{count} records were written, {written} are there")
        return int(files.size(path))


def delete_file(url: str) -> None:
    """Remove a file; nothing happens if there is none.

    Raises:
        LogError: `REMOTE_STORAGE_FAILED`.
    """
    with _translated(url):
        files, path = _open_files(url)
        try:
            files.rm_file(path)
        except FileNotFoundError:
            return


class PartReader:
    """Reads parts; keeps the last one open. Not thread-safe."""

    def __init__(self) -> None:
        self._open: tuple[str, Any, Any, Int64Array] | None = None  # url, stream, file, last offset of each row group

    def read(self, part: RemotePart, start: int, end: int) -> Iterator[Rows]:
        """The records with `start <= offset < end`, a row group at a time; offsets are those of the partition.

        Raises:
            PartGoneError: `REMOTE_PART_GONE`: there is no such file.
            LogError: `REMOTE_STORAGE_FAILED`: it can not be read.
        """
        with _translated(part.url):
            groups, lasts = self._file(part.url)
        for group in range(int(np.searchsorted(lasts, start)), len(lasts)):
            with _translated(part.url):
                table = groups.read_row_group(group)
            offsets = table.column("offset").to_numpy()
            low, high = np.searchsorted(offsets, [start, end]).tolist()
            if low < high:
                yield _rows(table.slice(low, high - low))
            if int(lasts[group]) >= end - 1:
                return

    def first_at(self, part: RemotePart, start: int, time_ms: int) -> int | None:
        """The first offset from `start` whose timestamp is at or after the time; raises as `read`."""
        with _translated(part.url):
            groups, lasts = self._file(part.url)
            for group in range(int(np.searchsorted(lasts, start)), len(lasts)):
                table = groups.read_row_group(group, columns=["offset", "timestamp_ms"])
                offsets = table.column("offset").to_numpy()
                found = offsets[(offsets >= start) & (table.column("timestamp_ms").to_numpy() >= time_ms)]
                if len(found):
                    return int(found[0])
        return None

    def close(self) -> None:
        """Let go of the open file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _file(self, url: str) -> tuple[Any, Int64Array]:
        if self._open is None or self._open[0] != url:
            import pyarrow.parquet as pq

            self.close()
            files, path = _open_files(url)
            stream = files.open(path, "rb")
            file = pq.ParquetFile(stream)
            groups = (file.metadata.row_group(number).column(0) for number in range(file.metadata.num_row_groups))
            lasts = np.array([group.statistics.max for group in groups], dtype=np.int64)
            self._open = (url, stream, file, lasts)
        return self._open[2], self._open[3]


@contextmanager
def _translated(url: str) -> Iterator[None]:
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
        raise LogError(
            "REMOTE_STORAGE_FAILED", f"{url} could not be used: {error}. Nothing is lost; trying again is safe"
        ) from error


def _open_files(url: str) -> tuple[Any, str]:
    import fsspec

    files, path = fsspec.core.url_to_fs(url)
    return files, str(path)


def _sync_local(files: Any, path: str) -> None:
    from fsspec.implementations.local import LocalFileSystem

    if not isinstance(files, LocalFileSystem):
        return
    for place in (Path(path), *list(Path(path).parents)[:3]):  # the file, and the folders that may be new
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _schema() -> Any:
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


def _table(rows: Rows) -> Any:
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


def _rows(table: Any) -> Rows:
    headers = table.column("headers").to_pylist()
    return Rows(
        table.column("offset").to_numpy(),
        table.column("timestamp_ms").to_numpy(),
        table.column("key").to_pylist(),
        table.column("value").to_pylist(),
        [tuple((header["key"], header["value"]) for header in record) for record in headers] if any(headers) else None,
    )
