"""`ExtractNewRecordState` of Debezium: the row instead of the envelope."""

from __future__ import annotations

import msgspec

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.config.validators import one_of
from hayase.connect.exceptions import DataError
from hayase.connect.model import ConnectHeader, ConnectRecord
from hayase.connect.schema import OPTIONAL_STRING_SCHEMA, STRING_SCHEMA, ConnectSchema
from hayase.connect.transforms.base import ConfiguredTransform, copied_basics, with_replace_null
from hayase.connect.transforms.debezium_envelope import FieldReference, envelope_of
from hayase.connect.transforms.dropped_fields import DroppedFields

_MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_DELETED = "__deleted"


class ExtractNewRecordState(ConfiguredTransform):
    """Unwraps Debezium's events: a record has the row after the change; other records pass.

    What becomes of deletes and tombstones says `delete.tombstone.handling.mode`.
    """

    config_def = with_replace_null(
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode",
            ConfigType.STRING,
            "tombstone",
            one_of(*_MODES),
            Importance.MEDIUM,
            "What becomes of deletes and tombstones. drop: both go. delete-to-tombstone: deletes become tombstones, "
            "tombstones go. tombstone: as before, but null has the schema of the row, which converters write. "
            "rewrite: deletes become the old row with __deleted=true, tombstones go. rewrite-with-tombstone: as "
            "rewrite, tombstones stay.",
        )
        .define("add.fields", ConfigType.LIST, [], None, Importance.LOW, "Fields of the envelope to add to the row.")
        .define(
            "add.headers", ConfigType.LIST, [], None, Importance.LOW, "Fields of the envelope to add to the headers."
        )
        .define("add.fields.prefix", ConfigType.STRING, "__", None, Importance.LOW, "Begins the names of added fields.")
        .define(
            "add.headers.prefix", ConfigType.STRING, "__", None, Importance.LOW, "Begins the names of added headers."
        )
        .define("route.by.field", ConfigType.STRING, "", None, Importance.LOW, "Field of the row that names the topic.")
        .define(
            "drop.fields.header.name", ConfigType.STRING, None, None, Importance.LOW,
            "A header with a list of fields that are left out of the row.",
        )
        .define(
            "drop.fields.from.key", ConfigType.BOOLEAN, False, None, Importance.LOW,
            "Whether these fields are left out of the key as well.",
        )
        .define(
            "drop.fields.keep.schema.compatible", ConfigType.BOOLEAN, True, None, Importance.LOW,
            "Whether only fields that are optional are left out.",
        )
    )  # fmt: skip

    def _setup(self, config: TypedConfig) -> None:
        self._mode = config.string("delete.tombstone.handling.mode")
        self._rewrites = self._mode.startswith("rewrite")
        self._fields = [
            FieldReference.parse("add.fields", text, config.string("add.fields.prefix"))
            for text in config.list("add.fields")
        ]
        self._headers = [
            FieldReference.parse("add.headers", text, config.string("add.headers.prefix"))
            for text in config.list("add.headers")
        ]
        self._route = config.string("route.by.field")
        self._dropped = DroppedFields(
            config.optional_string("drop.fields.header.name"),
            from_key=config.bool("drop.fields.from.key"),
            only_optional=config.bool("drop.fields.keep.schema.compatible"),
        )
        self._schemas: dict[int, tuple[ConnectSchema, ConnectSchema, dict[str, object]]] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with the row as its value."""
        if record.value is None:
            return self._kept_tombstone(record)
        envelope, schema = envelope_of(record), record.value_schema
        if envelope is None or schema is None:
            return record
        if envelope["op"] == "t":
            return None
        deleted = envelope.get("after") is None
        row = envelope.get("before" if deleted else "after")
        if deleted and self._mode == "drop":
            return None
        headers = self._with_headers(record, schema, envelope)
        topic = self._topic(record, row)
        if deleted and not self._rewrites:
            after = schema.field("after") if self._mode == "tombstone" else None
            null_schema = None if after is None else after.schema
            return self._dropped.apply(
                msgspec.structs.replace(record, topic=topic, value_schema=null_schema, value=None, headers=headers)
            )
        if not isinstance(row, dict):
            return None
        made, defaults = self._schema(schema)
        value = row
        if self._fields or self._rewrites:
            filled = {name: default for name, default in defaults.items() if row.get(name) is None}
            mark = {_DELETED: "true" if deleted else "false"} if self._rewrites else {}
            value = {**row, **filled, **mark, **{each.name: each.value(envelope) for each in self._fields}}
        unwrapped = msgspec.structs.replace(record, topic=topic, value_schema=made, value=value, headers=headers)
        # Debezium adds fields to the row of a delete after it has left out others.
        return self._dropped.apply(unwrapped, kept={each.name for each in self._fields} if deleted else ())

    def _kept_tombstone(self, record: ConnectRecord) -> ConnectRecord | None:
        if self._mode != "rewrite-with-tombstone":
            return None
        op = [ConnectHeader(each.name, "d", STRING_SCHEMA) for each in self._headers if each.field == "op"]
        return msgspec.structs.replace(record, headers=(*record.headers, *op)) if op else record

    def _with_headers(
        self, record: ConnectRecord, schema: ConnectSchema, envelope: dict[str, object]
    ) -> tuple[ConnectHeader, ...]:
        added = [ConnectHeader(each.name, each.value(envelope), each.schema(schema)) for each in self._headers]
        return (*record.headers, *added)

    def _topic(self, record: ConnectRecord, row: object) -> str:
        if not self._route:
            return record.topic
        topic = row.get(self._route) if isinstance(row, dict) else None
        if not topic:
            return record.topic
        if not isinstance(topic, str):
            raise DataError("INVALID_VALUE", f"route.by.field names {self._route!r}, which is no text in the record")
        return topic

    def _schema(self, envelope: ConnectSchema) -> tuple[ConnectSchema, dict[str, object]]:
        """The schema of the row with what is added, and what null becomes in a row that is rewritten."""
        found = self._schemas.get(id(envelope))
        if found is not None:
            return found[1], found[2]
        after = envelope.field("after")
        if after is None:
            raise DataError("INVALID_SCHEMA", "the envelope has no field after")
        fields = {each.name: each.schema for each in after.schema.fields}
        defaults: dict[str, object] = {}
        if self._rewrites:
            defaults = {name: schema.default for name, schema in fields.items() if schema.default is not None}
            fields[_DELETED] = OPTIONAL_STRING_SCHEMA
        for reference in self._fields:
            schema = reference.schema(envelope)
            if schema is None:
                raise DataError("UNKNOWN_FIELD", f"Unable to find field {reference.field} in the envelope")
            fields[reference.name] = schema
        made = copied_basics(after.schema, fields)
        if len(self._schemas) > 256:
            self._schemas.clear()
        self._schemas[id(envelope)] = (envelope, made, defaults)
        return made, defaults
