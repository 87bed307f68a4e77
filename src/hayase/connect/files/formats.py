"""Formats of files: rows out of bytes, and bytes of rows."""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import decimal
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, BinaryIO

from hayase.connect.exceptions import DataError

_READ_BYTES = 1 << 20


class FileFormat(StrEnum):
    """Formats of files."""

    LINES = "lines"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def read_rows(file: BinaryIO, file_format: FileFormat) -> Iterator[object]:
    """The rows of a file: text of lines, mappings of the others.

    A row that cannot be read comes as a `DataError`, so that the rows behind it can be read all the same.

    Raises:
        DataError: the file as a whole cannot be read.
    """
    if file_format is FileFormat.PARQUET:
        yield from _parquet_rows(file)
        return
    if file_format is FileFormat.CSV:
        yield from _csv_rows(io.TextIOWrapper(file, encoding="utf-8-sig", errors="strict", newline=""))
        return
    # Line by line: of bytes that are no text, only their line is damaged.
    for number, line in enumerate(io.BufferedReader(file, _READ_BYTES)):  # type: ignore[type-var]  # it reads bytes
        data = line.removeprefix(codecs.BOM_UTF8) if number == 0 else line
        if file_format is FileFormat.LINES:
            yield _text(data.rstrip(b"\r\n"))
        elif not data.isspace():
            yield _json_row(data)


def _text(line: bytes) -> object:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return DataError("ROW_DAMAGED", f"a line is no text in UTF-8: {error}")


def _json_row(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        return DataError("ROW_DAMAGED", f"a line is no JSON: {error}")


def _csv_rows(text: io.TextIOWrapper) -> Iterator[object]:
    csv.field_size_limit(sys.maxsize)  # else 128 KiB, of the whole process
    rows = csv.reader(text, strict=True)
    try:
        names = next(rows, None)
        if names is None:
            return
        if len(set(names)) < len(names):
            raise DataError("FILE_DAMAGED", f"the header has a name twice: {', '.join(names)}")
        for row in rows:
            if len(row) == len(names):
                yield dict(zip(names, row, strict=True))
            elif row:
                yield DataError("ROW_DAMAGED", f"a row has {len(row)} fields, the header {len(names)}")
    except csv.Error as error:
        raise DataError("FILE_DAMAGED", f"the file is no CSV: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError("FILE_DAMAGED", f"the file is no text in UTF-8: {error}") from error


class _StoredFile(io.RawIOBase):
    """A file of a store; `error` says that the store failed, which is no fault of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any, /) -> int:
        try:
            data = self._file.read(len(buffer))
        except Exception as error:
            self.error = error
            raise
        buffer[: len(data)] = data
        return len(data)


def _parquet_rows(file: BinaryIO) -> Iterator[object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = _StoredFile(file)
    try:
        for batch in pq.ParquetFile(stored).iter_batches():
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        if stored.error is not None:
            raise stored.error from error
        raise DataError("FILE_DAMAGED", f"the file is no Parquet: {error}") from error


def file_bytes(rows: Sequence[object], file_format: FileFormat) -> bytes:
    """The bytes of a file with these rows.

    Raises:
        DataError: `NO_ROW`: a row is no mapping, which CSV and Parquet need.
    """
    if file_format is FileFormat.LINES:
        return _encoded("".join(f"{'null' if row is None else row}\n" for row in rows))
    if file_format is FileFormat.JSON:
        return _encoded("".join(json.dumps(row, default=json_value, ensure_ascii=False) + "\n" for row in rows))
    mappings = [check_row(row) for row in rows]
    if file_format is FileFormat.CSV:
        names = list(dict.fromkeys(name for row in mappings for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(mappings)
        return _encoded(text.getvalue())
    return _parquet_bytes(mappings)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError("NO_ROW", f"a text has half of a surrogate pair, which is no character: {error}") from error


def _parquet_bytes(rows: Sequence[Mapping[str, object]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        pq.write_table(pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows]), sink)
    except (pa.ArrowException, TypeError, ArithmeticError) as error:
        raise DataError(
            "NO_COLUMN", f"the values of a field have different types, or one is too large: {error}"
        ) from error
    return sink.getvalue()


def check_row(row: object) -> Mapping[str, Any]:
    """The row as a mapping; raises `DataError` `NO_ROW` if it is none."""
    if isinstance(row, dict):
        return row
    raise DataError(
        "NO_ROW",
        f"a value of class {type(row).__name__} is no row: csv and parquet need a struct, or a map without a schema. "
        "HoistField makes one of a single value; tombstones can be dropped by Filter with RecordIsTombstone",
    )


def json_value(value: object) -> object:
    """What JSON has for a value that it does not know."""
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    raise DataError("NO_ROW", f"a value of class {type(value).__name__} cannot be written as JSON")
