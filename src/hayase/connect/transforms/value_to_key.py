"""`ValueToKey`: fields of the value become the key."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, struct_schema
from hayase.connect.transforms.base import FieldTransform, SchemaCache, non_empty_list, with_replace_null


class ValueToKey(FieldTransform):
    """Replaces the key by a struct or map of fields of the value."""

    of_key = False
    purpose = "copying fields from value to key"
    config_def = with_replace_null(
        ConfigDef().define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Fields of the value that make up the key.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._fields = config.list("fields")
        self._schemas = SchemaCache(self._key_schema)

    def _key_schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = {}
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError("UNKNOWN_FIELD", f"Field does not exist: {name}", field=name)
            fields[name] = field.schema
        return struct_schema(fields)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A key that is a map."""
        value = self.require_map(self.value_of(record))
        key = {name: value.get(name) for name in self._fields}
        return msgspec.structs.replace(record, key_schema=None, key=key)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A key that is a struct."""
        value = self.require_struct(schema, self.value_of(record))
        key_schema = self._schemas.get(schema)
        key = {each.name: self.struct_field(value, each.name, each.schema) for each in key_schema.fields}
        return msgspec.structs.replace(record, key_schema=key_schema, key=key)
