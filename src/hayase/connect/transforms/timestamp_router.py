"""`TimestampRouter`: another topic, by the time of the record."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.simple_dates import SimpleDateFormat
from hayase.connect.transforms.base import ConfiguredTransform


class TimestampRouter(ConfiguredTransform):
    """Puts the time of the record into the name of its topic."""

    config_def = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            importance=Importance.HIGH,
            documentation="The new name; ${topic} is the old one, ${timestamp} the time of the record.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            importance=Importance.HIGH,
            documentation="How the time is written: a pattern of `java.text.SimpleDateFormat`, in UTC.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._topic = config.string("topic.format")
        self._format = SimpleDateFormat(config.string("timestamp.format"))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record in its new topic; raises `DataError` for a record without a time."""
        if record.timestamp_ms is None:
            raise DataError("INVALID_VALUE", f"Timestamp missing on record: {record!r:.300}")
        time = self._format.format(record.timestamp_ms)
        topic = self._topic.replace("${topic}", record.topic).replace("${timestamp}", time)
        return msgspec.structs.replace(record, topic=topic)
