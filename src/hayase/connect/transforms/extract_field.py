"""`ExtractField`: one field becomes the whole key or value."""

from __future__ import annotations

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.transforms.base import FieldTransform, with_replace_null
from hayase.connect.transforms.field_path import SYNTAX_VERSION, parse_path, with_syntax_version


class ExtractField(FieldTransform):
    """Takes a field, or a nested one by its path, out of a struct or map; null stays null."""

    purpose = "field extraction"
    config_def = with_replace_null(
        with_syntax_version(
            ConfigDef().define(
                "field",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                documentation="The field, or the path to it, that becomes the key or value.",
            )
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._name = config.string("field")
        self._path = parse_path(self._name, config.string(SYNTAX_VERSION))

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """The field of a map; null if it is not there."""
        current = self.value_of(record)
        for step in self._path:
            if current is None:
                break
            current = self.require_map(current).get(step)
        return self.changed(record, None, current)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """The field of a struct, with its schema; raises `DataError` if the struct has none of that name."""
        value, current = self.value_of(record), schema
        for step in self._path:
            field = current.field(step) if current.type is SchemaType.STRUCT else None
            if field is None:
                raise DataError("UNKNOWN_FIELD", f"Unknown field: {self._name}", field=self._name)
            if value is not None:
                value = self.struct_field(self.require_struct(current, value), step, field.schema)
            current = field.schema
        return self.changed(record, current, value)


class ExtractFieldKey(ExtractField):
    """`ExtractField` of the key."""

    of_key = True


class ExtractFieldValue(ExtractField):
    """`ExtractField` of the value."""

    of_key = False
