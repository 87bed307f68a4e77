"""`DropHeaders`: removes headers."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.model import ConnectRecord
from hayase.connect.transforms.base import ConfiguredTransform, non_empty_list


class DropHeaders(ConfiguredTransform):
    """Removes the headers of these names."""

    config_def = ConfigDef().define(
        "headers",
        ConfigType.LIST,
        validator=non_empty_list,
        importance=Importance.HIGH,
        documentation="Names of the headers that are left out.",
    )

    def _setup(self, config: TypedConfig) -> None:
        self._names = frozenset(config.list("headers"))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """The record with the other headers."""
        kept = tuple(header for header in record.headers if header.key not in self._names)
        return record if len(kept) == len(record.headers) else msgspec.structs.replace(record, headers=kept)
