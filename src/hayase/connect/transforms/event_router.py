"""`EventRouter` of Debezium: rows of an outbox table become events of their own."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType, invalid
from hayase.connect.config.validators import one_of
from hayase.connect.exceptions import ConnectError, DataError
from hayase.connect.model import ConnectHeader, ConnectRecord
from hayase.connect.schema import (
    OPTIONAL_BOOLEAN_SCHEMA,
    OPTIONAL_FLOAT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    ConnectSchema,
    array_schema,
    struct_schema,
)
from hayase.connect.transforms.base import ConfiguredTransform
from hayase.connect.transforms.debezium_envelope import envelope_of

_LOG = logging.getLogger(__name__)
_PER_MILLISECOND = {"io.debezium.time.MicroTimestamp": 1000, "io.debezium.time.NanoTimestamp": 1_000_000}
_VALUE = "${routedByValue}"


@dataclass(frozen=True, slots=True)
class _Placement:
    """A field of the table that goes somewhere else than into the payload."""

    field: str
    place: str
    name: str

    @classmethod
    def parse(cls, text: str) -> _Placement:
        parts = [part.strip() for part in text.split(":")]
        if len(parts) not in (2, 3) or parts[1] not in ("header", "envelope", "partition"):
            raise invalid(
                "table.fields.additional.placement", text, "allowed is field:header, field:envelope or "
                "field:partition, with :name behind it if it gets another name",
            )  # fmt: skip
        return cls(parts[0], parts[1], parts[2] if len(parts) == 3 else parts[0])


def _definition() -> ConfigDef:
    definition = ConfigDef()
    low, medium, text = Importance.LOW, Importance.MEDIUM, ConfigType.STRING
    for name, default, what in (
        ("table.field.event.id", "id", "the event's id, which becomes the header `id`"),
        ("table.field.event.key", "aggregateid", "the key of the record"),
        ("table.field.event.payload", "payload", "the value of the record"),
        ("route.by.field", "aggregatetype", "what names the topic"),
    ):
        definition.define(name, text, default, None, medium, f"Column that holds {what}.")
    definition.define("table.field.event.timestamp", text, None, None, medium, "Column that holds the event's time.")
    definition.define(
        "table.fields.additional.placement", ConfigType.LIST, [], None, low,
        "Where other columns go: field:header, field:envelope or field:partition, each with :name behind it.",
    )  # fmt: skip
    definition.define(
        "table.fields.additional.error.on.missing", ConfigType.BOOLEAN, True, None, low,
        "Whether such a column must be there.",
    )  # fmt: skip
    definition.define(
        "table.expand.json.payload", ConfigType.BOOLEAN, False, None, medium,
        "Whether a payload that is JSON text becomes a struct.",
    )  # fmt: skip
    definition.define(
        "route.topic.regex", text, "(?<routedByValue>.*)", None, low, "What of the column names the topic, as a group."
    )
    definition.define(
        "route.topic.replacement", text, f"outbox.event.{_VALUE}", None, low, "The topic, with groups of the pattern."
    )
    definition.define(
        "route.tombstone.on.empty.payload", ConfigType.BOOLEAN, False, None, low,
        "Whether an empty payload becomes a tombstone.",
    )  # fmt: skip
    definition.define(
        "table.op.invalid.behavior", text, "warn", one_of("warn", "error", "fatal"), low,
        "What happens at an update of the outbox table: it is logged as a warning or error, or the task fails.",
    )  # fmt: skip
    return definition


class EventRouter(ConfiguredTransform):
    """Makes an event of each row that is inserted into an outbox table; deletes are left out, other records pass."""

    config_def = _definition()

    def _setup(self, config: TypedConfig) -> None:
        self._id = config.string("table.field.event.id")
        self._key = config.string("table.field.event.key")
        self._payload = config.string("table.field.event.payload")
        self._timestamp = config.optional_string("table.field.event.timestamp")
        self._route = config.string("route.by.field")
        self._placements = [_Placement.parse(each) for each in config.list("table.fields.additional.placement")]
        self._strict = config.bool("table.fields.additional.error.on.missing")
        self._expand = config.bool("table.expand.json.payload")
        self._tombstones = config.bool("route.tombstone.on.empty.payload")
        self._invalid = config.string("table.op.invalid.behavior")
        # Java writes a named group as (?<name>…), and refers to it as ${name}.
        pattern = re.sub(r"\(\?<(?![=!])", "(?P<", config.string("route.topic.regex"))
        try:
            self._regex = re.compile(pattern)
        except re.error as error:
            raise invalid("route.topic.regex", pattern, f"Invalid regular expression: {error}") from error
        replacement = config.string("route.topic.replacement").replace("\\", "\\\\")
        self._replacement = re.sub(r"\$\{(\w+)\}|\$(\d)", lambda found: rf"\g<{found[1] or found[2]}>", replacement)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The event of a row; `None` for a delete and its tombstone."""
        if record.value is None:
            return None
        envelope = envelope_of(record)
        if envelope is None or record.value_schema is None:
            return record
        op = envelope["op"]
        if op in ("d", "t"):
            return None
        if op == "u":
            self._refuse(record)
            return None
        after = record.value_schema.field("after")
        row = envelope.get("after")
        if after is None or not isinstance(row, dict):
            raise DataError("INVALID_VALUE", "the event of the outbox table has no row")
        return self._event(record, after.schema, row, envelope)

    def _refuse(self, record: ConnectRecord) -> None:
        message = f"an update of the outbox table is left out: topic {record.topic}, key {record.key!r:.200}"
        if self._invalid == "fatal":
            raise ConnectError("UNEXPECTED_UPDATE", message)
        _LOG.log(logging.WARNING if self._invalid == "warn" else logging.ERROR, "%s", message)

    def _event(
        self, record: ConnectRecord, schema: ConnectSchema, row: dict[str, object], envelope: dict[str, object]
    ) -> ConnectRecord:
        id_schema, event_id = self._field(schema, row, self._id)
        key_schema, key = record.key_schema, record.key
        if schema.field(self._key) is not None:
            key_schema, key = self._field(schema, row, self._key)
        value_schema, value = self._field(schema, row, self._payload)
        value_schema = value_schema.as_optional() if value_schema is not None else None
        if self._expand and isinstance(value, str):
            value_schema, value = _expanded(value, value_schema)
        headers = [*record.headers, ConnectHeader("id", event_id, id_schema)]
        partition: int | None = None  # the event's key decides, not the row's
        wrapped: dict[str, tuple[ConnectSchema, object]] = {}
        for placement in self._placements:
            found = schema.field(placement.field)
            if found is None:
                if self._strict:
                    raise DataError("UNKNOWN_FIELD", f"Unable to find field {placement.field} in the outbox table")
                continue
            given = row.get(placement.field)
            if placement.place == "header":
                headers.append(ConnectHeader(placement.name, given, found.schema))
            elif placement.place == "envelope":
                wrapped[placement.name] = (found.schema, given)
            elif isinstance(given, int):
                partition = given
        is_empty = value is None or value == ""
        if wrapped and value_schema is not None:
            fields = {"payload": value_schema, **{name: each for name, (each, _) in wrapped.items()}}
            # Rows of one table may become values of several schemas, one for each topic.
            name = None if schema.name is None else f"{schema.name.removesuffix('.Value')}.{row.get(self._route)}.Value"
            value_schema = struct_schema(fields, name=name)
            value = {"payload": value, **{name: each for name, (_, each) in wrapped.items()}}
        if is_empty and self._tombstones:
            value_schema, value = None, None
        return msgspec.structs.replace(
            record,
            topic=self._topic(row),
            kafka_partition=partition,
            key_schema=key_schema,
            key=key,
            value_schema=value_schema,
            value=value,
            headers=tuple(headers),
            timestamp_ms=self._time(schema, row, envelope),
        )

    @staticmethod
    def _field(schema: ConnectSchema, row: dict[str, object], name: str) -> tuple[ConnectSchema | None, object]:
        field = schema.field(name)
        if field is None:
            raise DataError("UNKNOWN_FIELD", f"Unable to find field {name} in the outbox table", field=name)
        return field.schema, row.get(name)

    def _topic(self, row: dict[str, object]) -> str:
        value = row.get(self._route)
        if not isinstance(value, str):
            raise DataError("INVALID_VALUE", f"the column {self._route!r} that names the topic has no text")
        return self._regex.sub(self._replacement, value, count=1)

    def _time(self, schema: ConnectSchema, row: dict[str, object], envelope: dict[str, object]) -> int | None:
        if self._timestamp is None:
            value = envelope.get("ts_ms")
            return value if isinstance(value, int) else None
        field_schema, value = self._field(schema, row, self._timestamp)
        if not isinstance(value, int):
            raise DataError("INVALID_VALUE", f"the column {self._timestamp!r} holds no time as a number")
        return value // _PER_MILLISECOND.get((field_schema and field_schema.name) or "", 1)


def _expanded(text: str, schema: ConnectSchema | None) -> tuple[ConnectSchema | None, object]:
    """JSON as a struct with the schema that it shows; the text itself if it is no object or array."""
    try:
        value = json.loads(text)
    except ValueError:
        return schema, text
    if not isinstance(value, (dict, list)):
        return schema, text
    inferred = _inferred(value, "payload")
    return (schema, text) if inferred is None else (inferred, value)


def _inferred(value: object, path: str) -> ConnectSchema | None:
    """The schema of a JSON value; `None` for null and the empty array, whose fields are left out.

    Args:
        value: in which fields without schema are left out.
        path: where it is; names the schema of an object.
    """
    if isinstance(value, bool):
        return OPTIONAL_BOOLEAN_SCHEMA
    if isinstance(value, int):
        return OPTIONAL_INT32_SCHEMA if -(1 << 31) <= value < 1 << 31 else OPTIONAL_INT64_SCHEMA
    if isinstance(value, float):
        return OPTIONAL_FLOAT64_SCHEMA
    if isinstance(value, str):
        return OPTIONAL_STRING_SCHEMA
    if isinstance(value, list):
        elements = [found for each in value if (found := _inferred(each, path)) is not None]
        if not elements or any(each.type is not elements[0].type for each in elements):
            return None
        return array_schema(elements[0], optional=True)
    if isinstance(value, dict):
        fields = {}
        for name in list(value):
            found = _inferred(value[name], f"{path}.{name}")
            if found is None:
                del value[name]
            else:
                fields[name] = found
        return struct_schema(fields, name=path, optional=True)
    return None
