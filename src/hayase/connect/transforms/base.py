"""What transforms have in common: the key or the value of a record, with a schema or without."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType, invalid
from hayase.connect.contracts import Transformation
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaField, SchemaType

_SCHEMAS_MAX = 256


class SchemaCache:
    """What a transform makes of schemas, each made once.

    Args:
        make: makes the new schema of an old one.
    """

    def __init__(self, make: Callable[[ConnectSchema], ConnectSchema]) -> None:
        self._make = make
        # By identity: comparing a wide schema costs more than many transforms. The old one is kept, so its id is its.
        self._made: dict[int, tuple[ConnectSchema, ConnectSchema]] = {}

    def get(self, schema: ConnectSchema) -> ConnectSchema:
        """The new schema."""
        found = self._made.get(id(schema))
        if found is None:
            if len(self._made) >= _SCHEMAS_MAX:
                self._made.clear()
            found = self._made[id(schema)] = (schema, self._make(schema))
        return found[1]


class ConfiguredTransform(Transformation):
    """A transform with a definition of its configuration."""

    config_def: ClassVar[ConfigDef] = ConfigDef()

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the transform."""
        return cls.config_def

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; raises `ConfigError`."""
        self._setup(TypedConfig(self.config_def, props))

    def _setup(self, config: TypedConfig) -> None:
        """Take the parsed configuration."""


class FieldTransform(ConfiguredTransform):
    """A transform of the key or of the value: `of_key` says which.

    Where the configuration has `replace.null.with.default`, `replace_null` is its value.
    """

    of_key: ClassVar[bool]
    purpose: ClassVar[str]
    replace_null = True

    def configure(self, props: Mapping[str, object]) -> None:
        """Take the configuration; raises `ConfigError`."""
        config = TypedConfig(self.config_def, props)
        if REPLACE_NULL in self.config_def.keys:
            self.replace_null = config.bool(REPLACE_NULL)
        self._setup(config)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with another key or value."""
        schema = self.schema_of(record)
        return self.without_schema(record) if schema is None else self.with_schema(record, schema)

    @abstractmethod
    def without_schema(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record, whose key or value has no schema, transformed."""

    @abstractmethod
    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord | None:
        """The record, whose key or value has this schema, transformed."""

    def schema_of(self, record: ConnectRecord) -> ConnectSchema | None:
        """The schema of the key or value."""
        return record.key_schema if self.of_key else record.value_schema

    def value_of(self, record: ConnectRecord) -> object:
        """The key or value."""
        return record.key if self.of_key else record.value

    def changed(self, record: ConnectRecord, schema: ConnectSchema | None, value: object) -> ConnectRecord:
        """The record with another key or value."""
        if self.of_key:
            return msgspec.structs.replace(record, key_schema=schema, key=value)
        return msgspec.structs.replace(record, value_schema=schema, value=value)

    def struct_field(self, value: Mapping[str, object], name: str, schema: ConnectSchema) -> object:
        """A field of a struct; its default where it is absent and `replace.null.with.default` is true."""
        given = value.get(name)
        return schema.default if given is None and self.replace_null else given

    def require_map(self, value: object) -> dict[str, object]:
        """A value without schema that must be a map; raises `DataError`."""
        if not isinstance(value, dict):
            raise DataError(
                "INVALID_VALUE",
                f"Only Map objects supported in absence of schema for [{self.purpose}], found: {class_of(value)}",
            )
        return value

    def require_struct(self, schema: ConnectSchema, value: object) -> dict[str, object]:
        """A value that must be a struct; raises `DataError`."""
        if schema.type is not SchemaType.STRUCT or not isinstance(value, dict):
            found = class_of(value) if schema.type is SchemaType.STRUCT else schema.type.name
            raise DataError("INVALID_VALUE", f"Only Struct objects supported for [{self.purpose}], found: {found}")
        return value


REPLACE_NULL = "replace.null.with.default"


def with_replace_null(definition: ConfigDef) -> ConfigDef:
    """Add the key `replace.null.with.default` to a definition."""
    return definition.define(
        REPLACE_NULL,
        ConfigType.BOOLEAN,
        True,
        importance=Importance.MEDIUM,
        documentation="Whether a field that is null is read as the default of its schema, where it has one.",
    )


def class_of(value: object) -> str:
    """The name of a value's class, for messages."""
    return "null" if value is None else type(value).__name__


def copied_basics(schema: ConnectSchema, fields: Mapping[str, ConnectSchema] | None = None) -> ConnectSchema:
    """A required schema without default that has the type, name, version, doc and parameters of another one.

    Args:
        schema: whose basics are taken.
        fields: of the new struct; `None`: the same fields.
    """
    made = dataclasses.replace(schema, optional=False, default=None)
    if fields is None:
        return made
    numbered = tuple(SchemaField(name, index, each) for index, (name, each) in enumerate(fields.items()))
    return dataclasses.replace(made, fields=numbered)


def non_empty_list(name: str, value: object) -> None:
    """A validator: a list with something in it."""
    if not value:
        raise invalid(name, value, "Empty list")


def parse_renames(name: str, mappings: list[str]) -> dict[str, str]:
    """`old:new` pairs; raises `ConfigError`."""
    renames = {}
    for mapping in mappings:
        old, colon, new = mapping.partition(":")
        if not colon or ":" in new:
            raise invalid(name, ",".join(mappings), f"Invalid rename mapping: {mapping}")
        renames[old] = new
    return renames
