"""`FileSource`: the rows of files of a folder or bucket as records."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty, one_of
from hayase.connect.contracts import ExactlyOnceSupport, Props, SourceConnector, SourceTask
from hayase.connect.exceptions import ConnectError, DataError, RetriableError
from hayase.connect.files.formats import FileFormat, read_rows
from hayase.connect.files.paths import errors_of, path_of_files
from hayase.connect.files.read_files import AfterFile, ReadFiles, version_of
from hayase.connect.model import Polled, SourceRecord
from hayase.connect.simple_connector import SimpleConnector

_WAIT_S = 0.1


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "path", ConfigType.STRING, validator=path_of_files, importance=Importance.HIGH,
            documentation="Pattern of the files, as /data/in/*.csv or s3://bucket/in/*.parquet.",
        )
        .define(
            "topic", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="Topic that the rows go to.",
        )
        .define(
            "format", ConfigType.STRING, "lines", one_of(*FileFormat, ignore_case=True), Importance.HIGH,
            "Format of the files: lines of text, csv with a header, json (an object a line), parquet.",
        )
        .define(
            "after", ConfigType.STRING, "keep", one_of(*AfterFile, ignore_case=True), Importance.MEDIUM,
            "What becomes of a file when all of it is published.",
        )
        .define(
            "move.path", ConfigType.STRING, None, path_of_files, Importance.MEDIUM,
            "Folder that files are moved to, for after=move; where a file has the name already, a number is added.",
        )
        .define(
            "settle.ms", ConfigType.LONG, 1_000, at_least(0), Importance.MEDIUM,
            "A file is complete when its size has not changed for so long. Files that are renamed into place need 0.",
        )
        .define(
            "list.interval.ms", ConfigType.LONG, 1_000, at_least(0), Importance.LOW,
            "How often the worker looks for files.",
        )
        .define(
            "batch.size", ConfigType.INT, 2_000, at_least(1), Importance.LOW, "How many rows a poll gives at most.",
        )
    )  # fmt: skip


class FileSourceConnector(SimpleConnector, SourceConnector):
    """Reads files that are complete, each once. Exactly once: an offset is a file and a row."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def start(self, props: Props) -> None:
        """See `Connector.start`."""
        super().start(props)
        config = TypedConfig(_definition(), props)
        move_path = config.optional_string("move.path")
        if config.string("after").lower() != AfterFile.MOVE:
            return
        if move_path is None:
            raise ConnectError("MISSING_SETTING", "after=move needs move.path, the folder that files are moved to")
        import fsspec.core

        if type(fsspec.core.url_to_fs(config.string("path"))[0]) is not type(fsspec.core.url_to_fs(move_path)[0]):
            raise ConnectError(
                "INVALID_SETTING",
                f"files are moved within a file system, and move.path={move_path} is on another one than "
                f"path={config.string('path')}",
            )

    def task_class(self) -> type[SourceTask]:
        """See `Connector.task_class`."""
        return FileSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """As many tasks as allowed: a file belongs to one of them, by its name."""
        return [{**self.props, "task.number": str(number), "task.count": str(max_tasks)} for number in range(max_tasks)]

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        """Supported: files that are complete do not change."""
        return ExactlyOnceSupport.SUPPORTED


@dataclass(slots=True)
class _Reading:
    """The file that is being read."""

    path: str
    size: int
    version: str
    row: int
    rows: Iterator[object]
    file: BinaryIO


class FileSourceTask(SourceTask):
    """Reads one file after the other, in the order of their names."""

    _reading: _Reading | None = None

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        import fsspec.core

        config = TypedConfig(_definition(), props)
        self._files, self._pattern = fsspec.core.url_to_fs(config.string("path"))
        self._topic = config.string("topic")
        self._format = FileFormat(config.string("format").lower())
        self._read = ReadFiles(
            self._files,
            AfterFile(config.string("after").lower()),
            config.optional_string("move.path"),
            self.context.offset_storage_reader,
            self.context.publish_offsets,
        )
        self._settle_ms = config.int("settle.ms")
        self._interval_ms = config.int("list.interval.ms")
        self._batch = config.int("batch.size")
        self._number, self._count = int(props["task.number"]), int(props["task.count"])
        self._tolerates = props.get("errors.tolerance", "none").lower() == "all"
        self._cut_off: tuple[str, int, str, int] | None = None
        self._seen: dict[str, tuple[int, float]] = {}  # sizes of files, and since when
        self._listed_s = 0.0
        self._ready: list[tuple[str, int, str]] = []

    def poll(self) -> Polled | None:
        """The next rows; waits a little where there are none."""
        if self._reading is None and not self._open_next():
            time.sleep(_WAIT_S)
            return None
        reading = self._reading
        assert reading is not None
        records: list[SourceRecord] = []
        try:
            while len(records) < self._batch:
                row = next(reading.rows, _END)
                if row is _END:
                    self._finish(reading)
                    break
                reading.row += 1
                if isinstance(row, DataError):
                    self._refuse(reading, row)
                else:
                    records.append(self._record(reading, row))
        except DataError as error:
            self._refuse(reading, error)
            self._finish(reading)
        except errors_of(self._files) as error:
            self._close(reading)
            self._cut_off = reading.path, reading.size, reading.version, reading.row  # its rows so far are polled
            if not records:
                raise RetriableError("FILES_AWAY", f"{reading.path} cannot be read on: {error}") from error
        return records

    def _refuse(self, reading: _Reading, error: DataError) -> None:
        if not self._tolerates:
            raise ConnectError(
                error.condition, f"{error.message}; errors.tolerance=all skips it", file=reading.path, row=reading.row
            ) from error
        self.context.metrics["rows-skipped-total"] = self.context.metrics.get("rows-skipped-total", 0) + 1

    def _close(self, reading: _Reading) -> None:
        reading.file.close()
        self._reading = None

    def _finish(self, reading: _Reading) -> None:
        self._close(reading)
        self._read.end(reading.path, reading.row, reading.size, reading.version)

    def _record(self, reading: _Reading, value: object) -> SourceRecord:
        return SourceRecord(
            source_partition={"file": reading.path},
            source_offset={
                "row": reading.row,
                "size": reading.size,
                "version": reading.version,
                "done": False,
            },
            topic=self._topic,
            value=value,
        )

    def _open_next(self) -> bool:
        if self._cut_off is not None:
            self._reading = self._opened(*self._cut_off)
            self._cut_off = None
            return True
        if not self._ready:
            self._ready = self._list()
        while self._ready:
            path, size, version = self._ready.pop(0)
            row = self._read.next_row(path, size, version)
            if row is not None:
                self._reading = self._opened(path, size, version, row)
                return True
        return False

    def _list(self) -> list[tuple[str, int, str]]:
        """Files of this task that are complete and not read yet."""
        now_s = time.monotonic()
        if self._listed_s and 1000 * (now_s - self._listed_s) < self._interval_ms:
            return []
        self._listed_s = now_s
        try:
            self._files.invalidate_cache()
            found = self._files.glob(self._pattern, detail=True)
        except FileNotFoundError:
            return []
        except errors_of(self._files) as error:
            raise RetriableError("FILES_AWAY", f"files of {self._pattern} cannot be listed: {error}") from error
        gone = self._look_at(found)
        complete: list[tuple[str, int, str]] = []
        for path, info in sorted(found.items()):
            if path in gone or info["type"] != "file" or zlib.crc32(path.encode()) % self._count != self._number:
                continue
            size, since_s = self._seen.get(path, (-1, now_s))
            if size != info["size"]:
                self._seen[path] = (info["size"], now_s)
                since_s = now_s
            if 1000 * (now_s - since_s) >= self._settle_ms:
                complete.append((path, info["size"], version_of(info)))
        return complete

    def _look_at(self, found: Mapping[str, object]) -> set[str]:
        """Put away what a task before has published; files that are not there any more."""
        try:
            gone = self._read.look_at(found)
        except errors_of(self._files) as error:
            raise RetriableError("FILES_AWAY", f"files of {self._pattern} cannot be looked at: {error}") from error
        self._seen = {path: seen for path, seen in self._seen.items() if path in found and path not in gone}
        self.context.metrics["files-not-put-away-total"] = self._read.failures
        return gone

    def _opened(self, path: str, size: int, version: str, row: int) -> _Reading:
        try:
            file = self._files.open(path, "rb")
            now = version_of(self._files.info(path))
        except errors_of(self._files) as error:
            raise RetriableError("FILES_AWAY", f"{path} cannot be opened: {error}") from error
        if now != version:
            file.close()
            if row > 0:
                raise ConnectError("FILE_CHANGED", f"the file was changed or replaced behind row {row}", file=path)
            raise RetriableError("FILES_AWAY", f"{path} was changed or replaced just now")
        rows = read_rows(file, self._format)
        for _ in range(row):
            next(rows, None)
        return _Reading(path, size, version, row, rows, file)

    def commit(self) -> None:
        """Move or delete the files that are published whole."""
        self._read.published()

    def stop(self) -> None:
        """See `Task.stop`."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.file.close()


_END = object()
