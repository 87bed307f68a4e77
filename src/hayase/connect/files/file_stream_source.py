"""`FileStreamSource`: the lines of one file as records, as Kafka's connector of that name."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, ClassVar

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import at_least, non_empty
from hayase.connect.contracts import (
    ExactlyOnceSupport,
    Props,
    SourceConnector,
    SourcePartitionKey,
    SourceTask,
)
from hayase.connect.exceptions import ConnectError
from hayase.connect.model import Polled, SourceOffset, SourceRecord
from hayase.connect.schema import STRING_SCHEMA
from hayase.connect.simple_connector import SimpleConnector

_WAIT_S = 0.1
_CHUNK_BYTES = 1 << 20


def _definition() -> ConfigDef:
    return (
        ConfigDef()
        .define("file", ConfigType.STRING, None, None, Importance.HIGH, "Path of the file.")
        .define(
            "topic", ConfigType.STRING, validator=non_empty, importance=Importance.HIGH,
            documentation="Topic that the lines go to.",
        )
        .define(
            "batch.size", ConfigType.INT, 2000, at_least(1), Importance.LOW,
            "How many lines a poll gives at most.",
        )
    )  # fmt: skip


class FileStreamSourceConnector(SimpleConnector, SourceConnector):
    """Reads the lines of a file, and goes on as it grows. Exactly once: an offset is a position in the file."""

    one_task: ClassVar[bool] = True

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SourceTask]:
        """See `Connector.task_class`."""
        return FileStreamSourceTask

    def exactly_once_support(self, props: Props) -> ExactlyOnceSupport:
        """Supported where a file is named."""
        return ExactlyOnceSupport.SUPPORTED if props.get("file") else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, props: Props, offsets: Mapping[SourcePartitionKey, SourceOffset | None]) -> bool:
        """Check that each offset is a position of a file."""
        for partition, offset in offsets.items():
            position = None if offset is None else offset.get("position")
            if offset is not None and (not isinstance(position, int) or position < 0):
                raise ConnectError("INVALID_OFFSET", f"the offset of {dict(partition)} needs a position, 0 or more")
            if set(dict(partition)) != {"filename"}:
                raise ConnectError("INVALID_OFFSET", f"a partition is {{'filename': …}}, not {dict(partition)}")
        return True


class FileStreamSourceTask(SourceTask):
    """Reads complete lines from a position on."""

    _file: BinaryIO | None = None

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        config = TypedConfig(_definition(), props)
        file = config.optional_string("file")
        if file is None:
            raise ConnectError("NO_FILE", "file is not set: a worker has no standard input to read; give a path")
        self._path = Path(file)
        self._topic = config.string("topic")
        self._batch_size = config.int("batch.size")
        self._partition = {"filename": file}
        stored = self.context.offset_storage_reader.offset(self._partition)
        position = 0 if stored is None else stored["position"]
        assert isinstance(position, int)
        self._position = position
        self._buffer = b""

    def poll(self) -> Polled | None:
        """The next complete lines; waits a little where there are none."""
        if self._file is None and not self._open():
            time.sleep(_WAIT_S)
            return None
        assert self._file is not None
        if b"\n" not in self._buffer:
            read = self._file.read(_CHUNK_BYTES)
            self._buffer += read
            if b"\n" not in self._buffer:
                if not read:
                    self._close_if_replaced(self._file)
                    time.sleep(_WAIT_S)
                return None
        *lines, self._buffer = self._buffer.split(b"\n", self._batch_size)
        records: list[SourceRecord] = []
        for line in lines:
            self._position += len(line) + 1
            records.append(self._record(line))
        return records

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            return False
        size = os.fstat(self._file.fileno()).st_size
        if size < self._position:
            raise ConnectError(
                "FILE_SHORTER",
                f"{self._path} has {size} bytes, and it was read up to {self._position}: it was replaced. Give the new "
                "one another name, or set the offset (PATCH /connectors/…/offsets)",
            )
        self._file.seek(self._position)
        return True

    def _close_if_replaced(self, file: BinaryIO) -> None:
        """At the end of the file: one that was made shorter, or whose name another one has, is opened again."""
        opened = os.fstat(file.fileno())
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return  # it is written to its end under another name, or made again soon
        if opened.st_size < self._position or not os.path.samestat(opened, named):
            file.close()
            self._file, self._buffer = None, b""

    def _record(self, line: bytes) -> SourceRecord:
        return SourceRecord(
            source_partition=self._partition,
            source_offset={"position": self._position},
            topic=self._topic,
            value_schema=STRING_SCHEMA,
            value=line.removesuffix(b"\r").decode(errors="replace"),
        )

    def stop(self) -> None:
        """See `Task.stop`."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
