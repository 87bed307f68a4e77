"""`ReplaceField`: leaves fields out and renames others."""

from __future__ import annotations

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema
from hayase.connect.transforms.base import FieldTransform, SchemaCache, copied_basics, parse_renames, with_replace_null


def _check_renames(name: str, value: object) -> None:
    parse_renames(name, value if isinstance(value, list) else [])


class ReplaceField(FieldTransform):
    """Filters fields by `exclude` and `include`, and renames by `renames`; null stays null."""

    purpose = "field replacement"
    config_def = with_replace_null(
        ConfigDef()
        .define(
            "exclude",
            ConfigType.LIST,
            [],
            importance=Importance.MEDIUM,
            documentation="Fields that are left out, even if `include` names them.",
        )
        .define(
            "include",
            ConfigType.LIST,
            [],
            importance=Importance.MEDIUM,
            documentation="The fields that stay; none: all.",
        )
        .define(
            "renames",
            ConfigType.LIST,
            [],
            _check_renames,
            Importance.MEDIUM,
            "`old:new` for each field that gets another name.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._exclude = frozenset(config.list("exclude"))
        self._include = frozenset(config.list("include"))
        self._renames = parse_renames("renames", config.list("renames"))
        self._schemas = SchemaCache(self._updated_schema)

    def _new_name(self, name: str) -> str | None:
        if name in self._exclude or (self._include and name not in self._include):
            return None
        return self._renames.get(name, name)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        named = ((self._new_name(each.name), each.schema) for each in schema.fields)
        return copied_basics(schema, {name: each for name, each in named if name is not None})

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with other fields."""
        return record if self.value_of(record) is None else super().apply(record)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A map with other entries."""
        given = self.require_map(self.value_of(record))
        named = ((self._new_name(name), each) for name, each in given.items())
        return self.changed(record, None, {name: each for name, each in named if name is not None})

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A struct with other fields."""
        given = self.require_struct(schema, self.value_of(record))
        value = {}
        for name, _, field_schema in schema.fields:
            new_name = self._new_name(name)
            if new_name is not None:
                value[new_name] = self.struct_field(given, name, field_schema)
        return self.changed(record, self._schemas.get(schema), value)


class ReplaceFieldKey(ReplaceField):
    """`ReplaceField` of the key."""

    of_key = True


class ReplaceFieldValue(ReplaceField):
    """`ReplaceField` of the value."""

    of_key = False
