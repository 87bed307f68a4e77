"""`HeaderFrom`: fields become headers."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeader, ConnectRecord
from hayase.connect.schema import ConnectSchema
from hayase.connect.transforms.base import FieldTransform, SchemaCache, copied_basics, non_empty_list, with_replace_null
from hayase.core.errors import ConfigError


class HeaderFrom(FieldTransform):
    """Moves or copies fields of the key or value into headers."""

    purpose = "header"
    config_def = with_replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Fields whose values become headers.",
        )
        .define(
            "headers",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Names of the headers, one for each of `fields`, in their order.",
        )
        .define(
            "operation",
            ConfigType.STRING,
            validator=one_of("move", "copy"),
            importance=Importance.HIGH,
            documentation="`move`: the fields are removed from the key or value. `copy`: they stay.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        fields, headers = config.list("fields"), config.list("headers")
        if len(fields) != len(headers):
            raise ConfigError(
                "INVALID_SETTING",
                f"'fields' config must have the same number of elements as 'headers' config: {len(fields)} and "
                f"{len(headers)}",
                setting="headers",
            )
        self._pairs = tuple(zip(fields, headers, strict=True))
        self._moves = config.string("operation") == "move"
        self._schemas = SchemaCache(self._updated_schema)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        moved = {name for name, _ in self._pairs}
        return copied_basics(schema, {each.name: each.schema for each in schema.fields if each.name not in moved})

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """Headers without schemas."""
        value = self.require_map(self.value_of(record))
        added = tuple(ConnectHeader(header, value.get(name)) for name, header in self._pairs)
        moved = msgspec.structs.replace(record, headers=(*record.headers, *added))
        if not self._moves:
            return moved
        names = {name for name, _ in self._pairs}
        return self.changed(moved, None, {name: each for name, each in value.items() if name not in names})

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """Headers with the schemas of the fields."""
        value = self.require_struct(schema, self.value_of(record))
        added = []
        for name, header in self._pairs:
            field = schema.field(name)
            if field is None:
                raise DataError("UNKNOWN_FIELD", f"{name} is not a valid field name", field=name)
            added.append(ConnectHeader(header, self.struct_field(value, name, field.schema), field.schema))
        moved = msgspec.structs.replace(record, headers=(*record.headers, *added))
        if not self._moves:
            return moved
        updated = self._schemas.get(schema)
        kept = {each.name: self.struct_field(value, each.name, each.schema) for each in updated.fields}
        return self.changed(moved, updated, kept)


class HeaderFromKey(HeaderFrom):
    """`HeaderFrom` of the key."""

    of_key = True


class HeaderFromValue(HeaderFrom):
    """`HeaderFrom` of the value."""

    of_key = False
