"""`MaskField`: values of fields are replaced by empty ones or by a fixed one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import non_empty
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import ConnectSchema, SchemaType
from hayase.connect.transforms.base import FieldTransform, class_of, non_empty_list, with_replace_null
from hayase.connect.values import convert_number

_NUMBERS = (
    SchemaType.INT8,
    SchemaType.INT16,
    SchemaType.INT32,
    SchemaType.INT64,
    SchemaType.FLOAT32,
    SchemaType.FLOAT64,
)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class MaskField(FieldTransform):
    """Masks fields with the empty value of their type (0, the empty text, false), or with `replacement`.

    Example:
        >>> from hayase.connect.model import SourceRecord
        >>> mask = MaskFieldValue()
        >>> mask.configure({"fields": "phone", "replacement": "***"})
        >>> record = SourceRecord(source_partition={}, source_offset={}, topic="t", value={"id": 1, "phone": "12"})
        >>> mask.apply(record).value
        {'id': 1, 'phone': '***'}
    """

    purpose = "mask fields"
    config_def = with_replace_null(
        ConfigDef()
        .define(
            "fields",
            ConfigType.LIST,
            validator=non_empty_list,
            importance=Importance.HIGH,
            documentation="Fields whose values are hidden.",
        )
        .define(
            "replacement",
            ConfigType.STRING,
            None,
            non_empty,
            Importance.LOW,
            "What stands in place of their values, which must be texts or numbers; nothing: 0, the empty text, false.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._fields = frozenset(config.list("fields"))
        self._replacement = config.optional_string("replacement")

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A map with masked entries."""
        value = dict(self.require_map(self.value_of(record)))
        for name in self._fields:
            value[name] = self._masked(None, value.get(name))
        return self.changed(record, None, value)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A struct with masked fields."""
        given = self.require_struct(schema, self.value_of(record))
        value = {}
        for name, _, field_schema in schema.fields:
            field = self.struct_field(given, name, field_schema)
            value[name] = self._masked(field_schema, field) if name in self._fields else field
        return self.changed(record, schema, value)

    def _masked(self, schema: ConnectSchema | None, value: object) -> object:
        if value is None:
            return None
        return _empty(schema, value) if self._replacement is None else _replaced(schema, value, self._replacement)


class MaskFieldKey(MaskField):
    """`MaskField` of the key."""

    of_key = True


class MaskFieldValue(MaskField):
    """`MaskField` of the value."""

    of_key = False


def _empty(schema: ConnectSchema | None, value: object) -> object:
    if isinstance(value, dt.datetime):
        return _EPOCH
    if isinstance(value, dt.date):
        return _EPOCH.date()
    if isinstance(value, dt.time):
        return dt.time()
    if isinstance(value, dict) and schema is not None and schema.type is SchemaType.STRUCT:
        raise DataError("INVALID_VALUE", "Cannot mask value of type: Struct")
    for kind in (bool, int, float, Decimal, str, list, dict):
        if isinstance(value, kind):
            return kind()
    raise DataError("INVALID_VALUE", f"Cannot mask value of type: {class_of(value)}")


def _replaced(schema: ConnectSchema | None, value: object, replacement: str) -> object:
    if isinstance(value, str):
        return replacement
    if isinstance(value, Decimal):
        try:
            return Decimal(replacement)
        except InvalidOperation:
            message = f"Unable to convert {replacement} (str) to number"
            raise DataError("INVALID_VALUE", message) from None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        kind = SchemaType.INT64 if isinstance(value, int) else SchemaType.FLOAT64
        return convert_number(schema.type if schema is not None and schema.type in _NUMBERS else kind, replacement)
    raise DataError("INVALID_VALUE", f"Cannot mask value of type {class_of(value)} with custom replacement.")
