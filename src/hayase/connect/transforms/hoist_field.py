"""`HoistField`: the key or value becomes the only field of a struct or map."""

from __future__ import annotations

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, struct_schema
from hayase.connect.transforms.base import FieldTransform, SchemaCache


class HoistField(FieldTransform):
    """Wraps the key or value."""

    purpose = "hoisting"
    config_def = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="Name of the only field of the new struct or map.",
    )

    def _setup(self, config: TypedConfig) -> None:
        self._name = config.string("field")
        self._schemas = SchemaCache(lambda schema: struct_schema({self._name: schema}))

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A map of one entry."""
        return self.changed(record, None, {self._name: self.value_of(record)})

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A struct of one field."""
        return self.changed(record, self._schemas.get(schema), {self._name: self.value_of(record)})


class HoistFieldKey(HoistField):
    """`HoistField` of the key."""

    of_key = True


class HoistFieldValue(HoistField):
    """`HoistField` of the value."""

    of_key = False
