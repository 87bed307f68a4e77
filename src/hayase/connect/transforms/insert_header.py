"""`InsertHeader`: adds a header."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import all_of, non_empty, non_null
from hayase.connect.model import ConnectHeader, ConnectRecord
from hayase.connect.transforms.base import ConfiguredTransform
from hayase.connect.values import parse_string


class InsertHeader(ConfiguredTransform):
    """Adds a header with a fixed value; its type is read from the text."""

    config_def = (
        ConfigDef()
        .define(
            "header",
            ConfigType.STRING,
            validator=all_of(non_null, non_empty),
            importance=Importance.HIGH,
            documentation="Name of the header.",
        )
        .define(
            "value.literal",
            ConfigType.STRING,
            validator=non_null,
            importance=Importance.HIGH,
            documentation="Its value, the same on all records; the text says the type.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        parsed = parse_string(config.string("value.literal"))
        self._header = ConnectHeader(config.string("header"), parsed.value, parsed.schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with one more header."""
        return msgspec.structs.replace(record, headers=(*record.headers, self._header))
