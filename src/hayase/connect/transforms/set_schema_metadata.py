"""`SetSchemaMetadata`: another name or version of the schema."""

from __future__ import annotations

import dataclasses

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.transforms.base import FieldTransform, SchemaCache, with_replace_null
from hayase.core.errors import ConfigError


class SetSchemaMetadata(FieldTransform):
    """Sets the name and version of the schema of the key or value."""

    purpose = "updating schema metadata"
    config_def = with_replace_null(
        ConfigDef()
        .define("schema.name", ConfigType.STRING, None, None, Importance.HIGH, "The new name of the schema.")
        .define("schema.version", ConfigType.INT, None, None, Importance.HIGH, "The new version of the schema.")
    )

    def _setup(self, config: TypedConfig) -> None:
        self._name = config.optional_string("schema.name")
        self._version = None if config["schema.version"] is None else config.int("schema.version")
        if self._name is None and self._version is None:
            raise ConfigError("INVALID_SETTING", "Neither schema name nor version configured")
        self._schemas = SchemaCache(self._updated_schema)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        return dataclasses.replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """Null stays null; raises `DataError` for anything else."""
        if self.value_of(record) is None:
            return record
        raise DataError("INVALID_VALUE", f"Schema required for [{self.purpose}]")

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """The same value under the renamed schema; fields that are null become their defaults, as configured."""
        value = self.value_of(record)
        if isinstance(value, dict) and schema.type is SchemaType.STRUCT:
            value = {field.name: self.struct_field(value, field.name, field.schema) for field in schema.fields}
        return self.changed(record, self._schemas.get(schema), value)


class SetSchemaMetadataKey(SetSchemaMetadata):
    """`SetSchemaMetadata` of the key."""

    of_key = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """`SetSchemaMetadata` of the value."""

    of_key = False
