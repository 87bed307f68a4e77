"""`FileSink`: records as files of a folder or bucket, each range of offsets once."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, one_of
from hayase.connect.contracts import Props, RangeNumber, RepeatableSinkTask, SinkConnector, SinkDelivery
from hayase.connect.exceptions import DataError, RetriableError
from hayase.connect.files.formats import FileFormat, check_row, file_bytes
from hayase.connect.files.paths import errors_of, path_of_files
from hayase.connect.model import SinkRecord
from hayase.connect.simple_connector import SimpleConnector

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_REFUSED_MAX = 100
"""How many records of a file are left out one by one: more are no exception, and each costs many attempts."""
_NAME_BYTES_MAX = 255
"""Of a folder, on most file systems."""
_MANIFESTS = "_manifests"  # readers of folders leave out names with an underscore
_SUFFIXES = {FileFormat.LINES: "txt", FileFormat.CSV: "csv", FileFormat.JSON: "json", FileFormat.PARQUET: "parquet"}


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "path", ConfigType.STRING, validator=path_of_files, importance=Importance.HIGH,
            documentation="Folder of the files, as /data/out or s3://bucket/out.",
        )
        .define(
            "format", ConfigType.STRING, "json", one_of(*FileFormat, ignore_case=True), Importance.HIGH,
            "Format of the files: lines of text, csv with a header, json (an object a line), parquet.",
        )
        .define(
            "partition.time.format", ConfigType.STRING, "", None, Importance.MEDIUM,
            "Folder by the record's time in UTC, as year=%Y/month=%m/day=%d.",
        )
        .define(
            "partition.fields", ConfigType.LIST, [], None, Importance.MEDIUM,
            "Fields of the value that make a folder each, as city=Oslo.",
        )
        .define(
            "range.records", ConfigType.INT, 50_000, at_least(1), Importance.MEDIUM,
            "How many records of a partition files are made of at most.",
        )
        .define(
            "range.interval.ms", ConfigType.LONG, 10_000, at_least(0), Importance.MEDIUM,
            "How long records wait for further ones before files are made.",
        )
    )  # fmt: skip


class FileSinkConnector(SimpleConnector, SinkConnector):
    """Writes files, exactly once: each is named by topic, partition and number of its range."""

    delivery: ClassVar[SinkDelivery] = SinkDelivery.REPEATABLE

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[RepeatableSinkTask]:
        """See `Connector.task_class`."""
        return FileSinkTask


class FileSinkTask(RepeatableSinkTask):
    """Writes the files of ranges, then a manifest that names them: the first manifest of a range counts."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        import fsspec.core

        config = TypedConfig(_definition(), props)
        self._files, folder = fsspec.core.url_to_fs(config.string("path"))
        self._folder = folder.rstrip("/")
        self._format = FileFormat(config.string("format").lower())
        self._time_format = config.string("partition.time.format")
        self._fields = config.list("partition.fields")

    def target(self) -> str:
        """See `RepeatableSinkTask.target`: the folder."""
        return self._folder

    def write(self, ranges: Sequence[RangeNumber]) -> None:
        """See `RepeatableSinkTask.write`."""
        try:
            for number in ranges:
                self._write_range(number)
        except errors_of(self._files) as error:
            raise RetriableError("FILES_AWAY", f"files cannot be written to {self._folder}: {error}") from error

    def _write_range(self, numbered: RangeNumber) -> None:
        part = numbered.range
        if not part.records:
            return
        where = part.partition
        name = f"{where.topic}+{where.partition}+{numbered.number:010d}"
        manifest = f"{self._folder}/{_MANIFESTS}/{self.context.connector}/{name}-{where.topic_id}.json"
        if self._files.exists(manifest):
            return
        by_folder: dict[str, list[SinkRecord]] = {}
        for record in part.records:
            folder = self._folder_or_refusal(record)
            if folder is not None:
                by_folder.setdefault(folder, []).append(record)
        files: list[str] = []
        for folder, records in by_folder.items():
            data = self._bytes_of(records)
            if data is not None:
                files.append(self._write_file(f"{folder}{name}", data))
        described = {"files": files, "start": part.start, "end": part.end, "records": len(part.records)}
        create_file(self._files, manifest, json.dumps(described).encode())

    def _write_file(self, name: str, data: bytes) -> str:
        """The path of a file with these bytes, in the folder.

        A file that has the name already may have other rows, of another configuration or of a topic that was not
        compacted yet: then no manifest names it.
        """
        path = f"{name}.{_SUFFIXES[self._format]}"
        if create_file(self._files, f"{self._folder}/{path}", data):
            return path
        if self._files.cat_file(f"{self._folder}/{path}") != data:
            path = f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.{_SUFFIXES[self._format]}"
            create_file(self._files, f"{self._folder}/{path}", data)
        return path

    def _bytes_of(self, records: list[SinkRecord]) -> bytes | None:
        """The bytes of a file; records whose values do not fit those before them are left out where that is tolerated.

        `None`: none fits.
        """
        reporter, refused = self.context.errant_record_reporter, 0
        while records:
            try:
                return file_bytes([each.value for each in records], self._format)
            except DataError as error:
                refused += 1
                if reporter is None or refused > _REFUSED_MAX:
                    raise
                fitting = self._fitting(records)
                reporter.report(records[fitting], error)
                records = records[:fitting] + records[fitting + 1 :]
        return None

    def _fitting(self, records: Sequence[SinkRecord]) -> int:
        """How many of the first records one file can hold; not all of them."""
        low, high = 0, len(records) - 1
        while low < high:
            middle = (low + high + 1) // 2
            try:
                file_bytes([each.value for each in records[:middle]], self._format)
                low = middle
            except DataError:
                high = middle - 1
        return low

    def _folder_or_refusal(self, record: SinkRecord) -> str | None:
        """The folder of a record; `None` if it cannot be a row, and that is tolerated."""
        try:
            if self._format in (FileFormat.CSV, FileFormat.PARQUET):
                check_row(record.value)
            return self._folder_of(record)
        except DataError as error:
            if self.context.errant_record_reporter is None:
                raise
            self.context.errant_record_reporter.report(record, error)
            return None

    def _folder_of(self, record: SinkRecord) -> str:
        folders: list[str] = []
        if self._time_format:
            time = dt.datetime.fromtimestamp((record.timestamp_ms or 0) / 1000, dt.UTC)
            folders.append(time.strftime(self._time_format).strip("/"))
        for field in self._fields:
            value = record.value.get(field) if isinstance(record.value, dict) else None
            if value is None:
                raise DataError(
                    "NO_PARTITION_FIELD",
                    f"the value has no field {field!r}, which partition.fields names",
                    topic=record.topic,
                    offset=record.kafka_offset,
                )
            folder = f"{field}={str(value).replace('/', '_')}"
            if len(folder.encode(errors="replace")) > _NAME_BYTES_MAX or "\0" in folder:
                raise DataError(
                    "INVALID_PARTITION_FIELD",
                    f"the value of {field!r}, {value!r:.80}, cannot be the name of a folder: it is too long, or has "
                    "the character 0",
                    topic=record.topic,
                    offset=record.kafka_offset,
                )
            folders.append(folder)
        return "".join(f"{folder}/" for folder in folders)

    def stop(self) -> None:
        """See `Task.stop`."""


def create_file(files: AbstractFileSystem, path: str, data: bytes) -> bool:
    """Make a file if there is none of its name, whole or not at all; whether it was made."""
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    if "file" not in files.protocol:
        try:
            files.pipe_file(path, data, mode="create")
        except errors_of(files):  # S3 says that a condition does not hold, and that is an OSError like any other
            files.invalidate_cache()
            if files.exists(path):
                return False
            raise
        return True
    temporary = f"{path.rpartition('/')[0]}/_{uuid.uuid4().hex}"
    try:
        with open(temporary, "xb") as file:  # noqa: PTH123 - the path is that of fsspec
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)  # noqa: PTH108
    return True
