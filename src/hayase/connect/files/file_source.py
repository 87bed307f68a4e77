"""`FileSource`: the rows of files of a folder or bucket as records."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty, one_of
from hayase.connect.contracts import ExactlyOnceSupport, Props, SourceConnector, SourceTask
from hayase.connect.exceptions import ConnectError, DataError, RetriableError
from hayase.connect.files.formats import FileFormat, read_rows
from hayase.connect.files.paths import errors_of, path_of_files
from hayase.connect.model import Polled, SourceRecord
from hayase.connect.simple_connector import SimpleConnector

_WAIT_S = 0.1


class AfterFile(StrEnum):
    """What becomes of a file whose rows are all published."""

    KEEP = "keep"
    MOVE = "move"
    DELETE = "delete"


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
            "Folder that files are moved to, for after=move.",
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
        if config.string("after").lower() == AfterFile.MOVE and config.optional_string("move.path") is None:
            raise ConnectError("MISSING_SETTING", "after=move needs move.path, the folder that files are moved to")

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
        self._after = AfterFile(config.string("after").lower())
        self._move_path = config.optional_string("move.path")
        self._settle_ms = config.int("settle.ms")
        self._interval_ms = config.int("list.interval.ms")
        self._batch = config.int("batch.size")
        self._number, self._count = int(props["task.number"]), int(props["task.count"])
        self._tolerates = props.get("errors.tolerance", "none").lower() == "all"
        self._cut_off: tuple[str, int, int] | None = None
        self._seen: dict[str, tuple[int, float]] = {}  # sizes of files, and since when
        self._finished: list[str] = []  # whose last rows are polled, and not published
        self._listed_s = 0.0
        self._ready: list[tuple[str, int]] = []

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
            self._cut_off = reading.path, reading.size, reading.row  # these rows are polled, published or not yet
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
        self._finished.append(reading.path)
        done = {"row": reading.row, "size": reading.size, "done": True}
        self.context.publish_offsets({"file": reading.path}, done)

    def _record(self, reading: _Reading, value: object) -> SourceRecord:
        return SourceRecord(
            source_partition={"file": reading.path},
            source_offset={"row": reading.row, "size": reading.size, "done": False},
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
            path, size = self._ready.pop(0)
            row = self._row_of(path, size)
            if row is not None:
                self._reading = self._opened(path, size, row)
                return True
        return False

    def _list(self) -> list[tuple[str, int]]:
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
        complete: list[tuple[str, int]] = []
        for path, info in sorted(found.items()):
            if info["type"] != "file" or zlib.crc32(path.encode()) % self._count != self._number:
                continue
            size, since_s = self._seen.get(path, (-1, now_s))
            if size != info["size"]:
                self._seen[path] = (info["size"], now_s)
                since_s = now_s
            if 1000 * (now_s - since_s) >= self._settle_ms and path not in self._finished:
                complete.append((path, info["size"]))
        return complete

    def _row_of(self, path: str, size: int) -> int | None:
        """Which row of a file is next; `None`: it is read."""
        stored = self.context.offset_storage_reader.offset({"file": path})
        if stored is None:
            return 0
        if stored["size"] != size:
            raise ConnectError(
                "FILE_CHANGED",
                f"the file has {size} bytes, and had {stored['size']} when it was read. Files must be complete when "
                "they are found: rename them into place, or raise settle.ms; a new file needs a new name",
                file=path,
            )
        row = stored["row"]
        assert isinstance(row, int)
        if not stored["done"]:
            return row
        self._finished.append(path)
        self.commit()  # it was published, and is perhaps not moved
        return None

    def _opened(self, path: str, size: int, row: int) -> _Reading:
        try:
            file = self._files.open(path, "rb")
        except errors_of(self._files) as error:
            raise RetriableError("FILES_AWAY", f"{path} cannot be opened: {error}") from error
        rows = read_rows(file, self._format)
        for _ in range(row):
            next(rows, None)
        return _Reading(path, size, row, rows, file)

    def commit(self) -> None:
        """Move or delete the files that are published whole."""
        if self._after is AfterFile.KEEP:
            return
        import fsspec.core

        finished, self._finished = self._finished, []
        for path in finished:
            if self._after is AfterFile.DELETE:
                self._files.rm_file(path)
            else:
                assert self._move_path is not None
                target = fsspec.core.url_to_fs(self._move_path)[1].rstrip("/")
                self._files.makedirs(target, exist_ok=True)
                self._files.mv(path, f"{target}/{path.rpartition('/')[2]}")
            self._seen.pop(path, None)
            self.context.publish_offsets({"file": path}, None)

    def stop(self) -> None:
        """See `Task.stop`."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.file.close()


_END = object()
