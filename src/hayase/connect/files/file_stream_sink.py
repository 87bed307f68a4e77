"""`FileStreamSink`: records as lines of one file, as Kafka's connector of that name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hayase.connect.config.config_def import ConfigDef, Importance
from hayase.connect.config.types import ConfigType
from hayase.connect.contracts import Props, SinkConnector, SinkTask
from hayase.connect.exceptions import ConnectError
from hayase.connect.model import SinkRecord
from hayase.connect.simple_connector import SimpleConnector
from hayase.core.records import TopicPartition


def _definition() -> ConfigDef:
    return ConfigDef().define("file", ConfigType.STRING, None, None, Importance.HIGH, "Path of the file.")


class FileStreamSinkConnector(SimpleConnector, SinkConnector):
    """Appends a line to a file for each record, at least once; lines are in the file as soon as they are read.

    They are made durable when offsets are committed (`offset.flush.interval.ms` of the worker).
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the connector."""
        return _definition()

    def task_class(self) -> type[SinkTask]:
        """See `Connector.task_class`."""
        return FileStreamSinkTask

    def alter_offsets(self, props: Props, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Nothing is kept but the offsets of the consumer group."""
        return True


class FileStreamSinkTask(SinkTask):
    """Appends lines."""

    def start(self, props: Props) -> None:
        """See `Task.start`."""
        file = props.get("file")
        if not file:
            raise ConnectError("NO_FILE", "file is not set; give a path")
        self._file = Path(file).open("ab", buffering=1 << 16)  # noqa: SIM115 - closed by stop

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Append the values, as text; a reader of the file sees them at once, as with Kafka's connector."""
        lines = [f"{'null' if record.value is None else record.value}\n" for record in records]
        self._file.write("".join(lines).encode())
        self._file.flush()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything durable."""
        os.fsync(self._file.fileno())

    def stop(self) -> None:
        """See `Task.stop`."""
        if hasattr(self, "_file"):
            self._file.close()
