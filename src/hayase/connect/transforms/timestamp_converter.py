"""`TimestampConverter`: times as texts, numbers, dates, times of day and timestamps."""

from __future__ import annotations

import dataclasses
import datetime as dt

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.connect.exceptions import ConnectError, DataError
from hayase.connect.logical_types import (
    DAY_MS,
    date_of,
    days_of,
    milliseconds_of,
    milliseconds_of_day,
    time_of,
    timestamp_of,
)
from hayase.connect.model import ConnectRecord
from hayase.connect.schema import (
    DATE_NAME,
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_NAME,
    TIME_SCHEMA,
    TIMESTAMP_NAME,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    SchemaType,
)
from hayase.connect.simple_dates import SimpleDateFormat
from hayase.connect.transforms.base import FieldTransform, SchemaCache, class_of, copied_basics, with_replace_null
from hayase.core.errors import ConfigError
from hayase.sql.types.java_numbers import wrapped

_SCHEMAS = {
    "string": STRING_SCHEMA,
    "unix": INT64_SCHEMA,
    "Date": DATE_SCHEMA,
    "Time": TIME_SCHEMA,
    "Timestamp": TIMESTAMP_SCHEMA,
}
_LOGICAL = {TIMESTAMP_NAME: "Timestamp", DATE_NAME: "Date", TIME_NAME: "Time"}
_PER_SECOND = {"seconds": 1, "milliseconds": 1_000, "microseconds": 1_000_000, "nanoseconds": 1_000_000_000}


class TimestampConverter(FieldTransform):
    """Converts a field, or the whole key or value, between forms of a time, to the millisecond.

    Example:
        >>> from hayase.connect.model import SourceRecord
        >>> convert = TimestampConverterValue()
        >>> convert.configure({"field": "at", "target.type": "string", "format": "yyyy-MM-dd HH:mm"})
        >>> record = SourceRecord(source_partition={}, source_offset={}, topic="t", value={"at": 1700000000000})
        >>> convert.apply(record).value
        {'at': '2023-11-14 22:13'}
    """

    purpose = "converting timestamp formats"
    config_def = with_replace_null(
        ConfigDef()
        .define(
            "field",
            ConfigType.STRING,
            "",
            importance=Importance.HIGH,
            documentation="The field that holds the time; empty: the whole key or value is one.",
        )
        .define(
            "target.type",
            ConfigType.STRING,
            validator=one_of(*_SCHEMAS),
            importance=Importance.HIGH,
            documentation="What it becomes: string, unix, Date, Time or Timestamp.",
        )
        .define(
            "format",
            ConfigType.STRING,
            "",
            importance=Importance.MEDIUM,
            documentation="Pattern of texts, read and written, as `java.text.SimpleDateFormat` takes it.",
        )
        .define(
            "unix.precision",
            ConfigType.STRING,
            "milliseconds",
            one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
            Importance.LOW,
            "What numbers count, read and written: seconds, milliseconds, microseconds or nanoseconds. Times are kept "
            "to the "
            "millisecond.",
        )
    )

    def _setup(self, config: TypedConfig) -> None:
        self._field = config.string("field")
        self._target = config.string("target.type")
        self._per_second = _PER_SECOND[config.string("unix.precision")]
        pattern = config.string("format")
        if self._target == "string" and not pattern.strip():
            raise ConfigError(
                "INVALID_SETTING",
                "TimestampConverter requires format option to be specified when using string timestamps",
                setting="format",
            )
        self._format = SimpleDateFormat(pattern) if pattern.strip() else None
        self._schemas = SchemaCache(self._updated_schema)

    def _updated_schema(self, schema: ConnectSchema) -> ConnectSchema:
        target = _SCHEMAS[self._target]
        if not self._field:
            return target.as_optional(schema.optional)
        fields = {
            each.name: target.as_optional(each.schema.optional) if each.name == self._field else each.schema
            for each in schema.fields
        }
        default = schema.default
        if isinstance(default, dict):
            default = self._updated_struct(schema, default)
        return dataclasses.replace(copied_basics(schema, fields), optional=schema.optional, default=default)

    def without_schema(self, record: ConnectRecord) -> ConnectRecord:
        """A time whose form its Python type says."""
        value = self.value_of(record)
        if value is None or not self._field:
            return self.changed(record, None, self._converted(value, None))
        updated = dict(self.require_map(value))
        updated[self._field] = self._converted(updated.get(self._field), None)
        return self.changed(record, None, updated)

    def with_schema(self, record: ConnectRecord, schema: ConnectSchema) -> ConnectRecord:
        """A time whose form its schema says."""
        value = self.value_of(record)
        updated_schema = self._schemas.get(schema)
        if not self._field:
            return self.changed(record, updated_schema, self._converted(value, _form_of(schema)))
        if value is not None:
            value = self._updated_struct(schema, self.require_struct(schema, value))
        return self.changed(record, updated_schema, value)

    def _updated_struct(self, schema: ConnectSchema, given: dict[str, object]) -> dict[str, object]:
        updated = {}
        for name, _, field_schema in schema.fields:
            field = self.struct_field(given, name, field_schema)
            updated[name] = self._converted(field, _form_of(field_schema)) if name == self._field else field
        return updated

    def _converted(self, value: object, form: str | None) -> object:
        if value is None:
            return None
        milliseconds = self._milliseconds(value, form)
        if self._target == "string":
            assert self._format is not None, "the configuration was checked"
            return self._format.format(milliseconds)
        if self._target == "unix":
            if self._per_second >= 1000:
                return wrapped(milliseconds * (self._per_second // 1000), 64)
            return int(milliseconds / 1000) if milliseconds >= 0 else -(-milliseconds // 1000)
        if self._target == "Date":
            return date_of(milliseconds // DAY_MS)
        return time_of(milliseconds % DAY_MS) if self._target == "Time" else timestamp_of(milliseconds)

    def _milliseconds(self, value: object, form: str | None) -> int:
        if isinstance(value, dt.datetime) and form in (None, "Timestamp", "Date", "Time"):
            return milliseconds_of(value)
        if isinstance(value, dt.date) and form in (None, "Date"):
            return days_of(value) * DAY_MS
        if isinstance(value, dt.time) and form in (None, "Time"):
            return milliseconds_of_day(value)
        if isinstance(value, str) and form in (None, "string"):
            if self._format is None:
                raise DataError("INVALID_VALUE", f"the text {value!r:.80} cannot be read without the setting format")
            return self._format.parse(value)
        if isinstance(value, int) and not isinstance(value, bool) and form in (None, "unix"):
            if self._per_second == 1:
                return value * 1000
            per_millisecond = self._per_second // 1000
            return value // per_millisecond if value >= 0 else -(-value // per_millisecond)
        if form is None:
            raise DataError(
                "INVALID_VALUE", f"TimestampConverter does not support {class_of(value)} objects as timestamps"
            )
        raise DataError("INVALID_VALUE", f"Expected {form} timestamp, but found {class_of(value)}")


class TimestampConverterKey(TimestampConverter):
    """`TimestampConverter` of the key."""

    of_key = True


class TimestampConverterValue(TimestampConverter):
    """`TimestampConverter` of the value."""

    of_key = False


def _form_of(schema: ConnectSchema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is SchemaType.STRING:
        return "string"
    if schema.type is SchemaType.INT64:
        return "unix"
    raise ConnectError(
        "INVALID_SCHEMA", f"Schema {schema.type.name} does not correspond to a known timestamp type format"
    )
