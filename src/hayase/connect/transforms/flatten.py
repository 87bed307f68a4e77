"""`Flatten`: fields of nested structs and maps move to the top."""

from __future__ import annotations

import dataclasses

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.transforms.base import FieldTransform, SchemaCache, class_of, copied_basics

_PLAIN = (str, bool, int, float, bytes, bytearray, memoryview, list)


class Flatten(FieldTransform):
    """Joins the names of nested fields with a delimiter; arrays stay as they are, and so do maps with a schema.

    Example:
        >>> from hayase.connect.model import SourceRecord
        >>> flatten = FlattenValue()
        >>> flatten.configure({"delimiter": "_"})
        >>> record = SourceRecord(source_partition={}, source_offset={}, topic="t", value={"a": {"b": 1}, "c": 2})
        >>> flatten.apply(record).value
        {'a_b': 1, 'c': 2}
    """

    purpose = "flattening"
    config_def = ConfigDef().define(
        "delimiter",
        ConfigType.STRING,
        ".",
        importance=Importance.MEDIUM,
        documentation="What stands between the names of nested fields.",
    )

    def _setup(self, config: TypedConfig) -> None:
        self._delimiter = config.string("delimiter")
        self._schemas = SchemaCache(self._updated_schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with a flat key or value; null stays null."""
        return record if self.value_of(record) is None else super().apply(record)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A flat map."""
        flat: dict[str, object] = {}
        self._flatten_map(self.require_map(self.value_of(record)), "", flat)
        return self.changed(record, None, flat)

    def _flatten_map(self, value: dict[str, object], prefix: str, flat: dict[str, object]) -> None:
        for name, field in value.items():
            path = self._path(prefix, name)
            if field is None or isinstance(field, _PLAIN):
                flat[path] = field
            elif isinstance(field, dict):
                self._flatten_map(field, path, flat)
            else:
                raise DataError(
                    "INVALID_VALUE",
                    f"Flatten transformation does not support {class_of(field)} for record without schemas (for field "
                    f"{path}).",
                )

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A flat struct."""
        value = self.require_struct(schema, self.value_of(record))
        flat: dict[str, object] = {}
        self._flatten_struct(schema, value, "", flat)
        return self.changed(record, self._schemas.get(schema), flat)

    def _flatten_struct(
        self, schema: ConnectSchema, value: dict[str, object] | None, prefix: str, flat: dict[str, object]
    ) -> None:
        if value is None:
            return
        for name, _, field_schema in schema.fields:
            path = self._path(prefix, name)
            field = self.struct_field(value, name, field_schema)
            if field_schema.type is SchemaType.STRUCT:
                inner = None if field is None else self.require_struct(field_schema, field)
                self._flatten_struct(field_schema, inner, path, flat)
            else:
                flat[path] = field

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        fields: dict[str, ConnectSchema] = {}
        default = schema.default if isinstance(schema.default, dict) else None
        self._flatten_schema(schema, "", fields, schema.optional, default)
        flat_default: dict[str, object] | None = None
        if default is not None:
            flat_default = {}
            self._flatten_struct(schema, default, "", flat_default)
        return dataclasses.replace(copied_basics(schema, fields), default=flat_default)

    def _flatten_schema(
        self,
        schema: ConnectSchema,
        prefix: str,
        fields: dict[str, ConnectSchema],
        optional: bool,
        parent_default: dict[str, object] | None,
    ) -> None:
        for name, _, field_schema in schema.fields:
            path = self._path(prefix, name)
            # A field of an absent struct is absent.
            is_optional = optional or field_schema.optional
            default = field_schema.default
            if default is None and parent_default is not None:
                default = parent_default.get(name)
            if field_schema.type is SchemaType.STRUCT:
                inner = default if isinstance(default, dict) else None
                self._flatten_schema(field_schema, path, fields, is_optional, inner)
            else:
                fields[path] = dataclasses.replace(copied_basics(field_schema), optional=is_optional, default=default)

    def _path(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


class FlattenKey(Flatten):
    """`Flatten` of the key."""

    of_key = True


class FlattenValue(Flatten):
    """`Flatten` of the value."""

    of_key = False
