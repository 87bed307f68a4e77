"""Transforms of the connectors in this folder: the worker finds them in `plugin.path`."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from hayase.connect.config.config_def import ConfigDef
from hayase.connect.config.types import ConfigType
from hayase.connect.contracts import Transformation
from hayase.connect.model import ConnectRecord


class EventTime(Transformation):
    """Takes the time of a record from a field of its value: text in ISO 8601, with its zone."""

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the transform."""
        return ConfigDef().define("field", ConfigType.STRING, documentation="The field with the time.")

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration."""
        self.field = str(props["field"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with that time."""
        if not isinstance(record.value, dict):  # a tombstone
            return record
        at = datetime.fromisoformat(record.value[self.field])
        return record.new_record(timestamp_ms=round(at.timestamp() * 1000))


class WindowedKey(Transformation):
    """Makes a struct of the bytes of a windowed key: JSON, then the start of the window in 8 bytes."""

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with that struct as its key."""
        assert isinstance(record.key, bytes)
        start = datetime.fromtimestamp(int.from_bytes(record.key[-8:], "big") / 1000, UTC)
        return record.new_record(key_schema=None, key={**json.loads(record.key[:-8]), "window_start": start})
