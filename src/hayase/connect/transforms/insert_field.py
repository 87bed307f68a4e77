"""`InsertField`: topic, partition, offset, time or a fixed text as a field."""

from __future__ import annotations

from typing import NamedTuple

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import timestamp_of
from hayase.connect.model import ConnectRecord, SinkRecord
from hayase.connect.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, ConnectSchema
from hayase.connect.transforms.base import FieldTransform, SchemaCache, class_of, copied_basics, with_replace_null
from hayase.core.errors import ConfigError

_SUFFIXES = "With ! behind the name the field is required, with ? or nothing optional."
_FIELDS = (
    ("topic.field", STRING_SCHEMA, "Field that gets the topic. "),
    ("partition.field", INT32_SCHEMA, "Field that gets the partition. "),
    ("offset.field", INT64_SCHEMA, "Field that gets the offset, which records of sinks have. "),
    ("timestamp.field", TIMESTAMP_SCHEMA, "Field that gets the time of the record. "),
    ("static.field", STRING_SCHEMA, "Field that gets `static.value`. "),
)


def _definition() -> ConfigDef:
    definition = ConfigDef()
    for name, _, documentation in _FIELDS:
        definition.define(name, ConfigType.STRING, None, None, Importance.MEDIUM, documentation + _SUFFIXES)
    definition.define(
        "static.value",
        ConfigType.STRING,
        None,
        None,
        Importance.MEDIUM,
        "The value of `static.field`.",
    )
    return with_replace_null(definition)


class _Inserted(NamedTuple):
    setting: str
    name: str
    schema: ConnectSchema


class InsertField(FieldTransform):
    """Adds fields with what is known of the record beside its key and value; null stays null."""

    purpose = "field insertion"
    config_def = _definition()

    def _setup(self, config: TypedConfig) -> None:
        self._inserted: list[_Inserted] = []
        for setting, schema, _ in _FIELDS:
            text = config.optional_string(setting)
            if text is not None:
                required = text.endswith("!")
                name = text[:-1] if text.endswith(("!", "?")) else text
                self._inserted.append(_Inserted(setting, name, schema.as_optional(not required)))
        self._static = config.optional_string("static.value")
        if not self._inserted:
            raise ConfigError("INVALID_SETTING", "No field insertion configured")
        if config.optional_string("static.field") is not None and self._static is None:
            raise ConfigError(
                "INVALID_SETTING",
                "Invalid value null for configuration static.value: No value specified for static field: "
                f"{config.string('static.field')}",
                setting="static.value",
            )
        self._schemas = SchemaCache(self._updated_schema)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields = {each.name: each.schema for each in schema.fields}
        return copied_basics(schema, fields | {each.name: each.schema for each in self._inserted})

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with more fields."""
        return record if self.value_of(record) is None else super().apply(record)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A map with more entries; the time is milliseconds."""
        value = dict(self.require_map(self.value_of(record)))
        for setting, name, _ in self._inserted:
            inserted = self._value(setting, record)
            if inserted is not None:
                value[name] = inserted
        return self.changed(record, None, value)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A struct with more fields."""
        given = self.require_struct(schema, self.value_of(record))
        value = {each.name: self.struct_field(given, each.name, each.schema) for each in schema.fields}
        for setting, name, _ in self._inserted:
            inserted = self._value(setting, record)
            if setting == "timestamp.field" and isinstance(inserted, int):
                inserted = timestamp_of(inserted)
            if inserted is not None:
                value[name] = inserted
        return self.changed(record, self._schemas.get(schema), value)

    def _value(self, setting: str, record: ConnectRecord) -> object:
        if setting == "topic.field":
            return record.topic
        if setting == "partition.field":
            return record.kafka_partition
        if setting == "timestamp.field":
            return record.timestamp_ms
        if setting == "static.field":
            return self._static
        if not isinstance(record, SinkRecord):
            raise DataError(
                "INVALID_VALUE", f"Only SinkRecord supported for [{self.purpose}], found: {class_of(record)}"
            )
        return record.kafka_offset


class InsertFieldKey(InsertField):
    """`InsertField` of the key."""

    of_key = True


class InsertFieldValue(InsertField):
    """`InsertField` of the value."""

    of_key = False
