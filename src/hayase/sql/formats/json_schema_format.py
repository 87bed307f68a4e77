"""The format JSON_SR: JSON in Confluent's wire format, with the columns' JSON Schema or one of the registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.protocol import Side
from hayase.serde.registry import SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import SCHEMA_ID, FormatInfo
from hayase.sql.formats.json_format import JsonPayload
from hayase.sql.formats.json_schema_columns import json_schema
from hayase.sql.formats.payload import PayloadCodec


class JsonSchemaPayload(PayloadCodec):
    """JSON of the columns, or of the only column's value, behind the schema's id. Maps are arrays of entries.

    Args:
        format_: with the id of the schema to write by, if one was given.
        columns: names and types.
        bare: the value is that of the only column.
        side: keys or values.
        topic: its name makes the subject.
        registry: where schemas are.
    """

    def __init__(
        self,
        format_: FormatInfo,
        columns: Sequence[Column],
        *,
        bare: bool,
        side: Side,
        topic: str,
        registry: SchemaRegistry,
    ) -> None:
        self._json = JsonPayload(columns, bare=bare, entries=True)
        schema_id = format_.property(SCHEMA_ID)
        self._schema_id = None if schema_id is None else int(schema_id)
        own = json_schema(columns, bare=bare) if schema_id is None else None
        self._registered: JsonSchemaSerde[Any] = JsonSchemaSerde(own, registry).for_topic(topic, side, {})
        self._written: tuple[bytes, dict[str, None]] | None = None

    def write(self, value: Any) -> bytes:
        """The schema's id and the JSON; raises SchemaRegistryError."""
        if self._written is None:
            self._written = (self._registered.written_head(), {}) if self._schema_id is None else self._by_id()
        head, missing = self._written
        return head + self._json.write(value, missing)

    def _by_id(self) -> tuple[bytes, dict[str, None]]:
        """The head for the schema that was asked for, and null for each of its fields, which all are written."""
        assert self._schema_id is not None
        schema = json.loads(self._registered.written_schema(self._schema_id).text)
        return self._registered.head(self._schema_id), dict.fromkeys(schema.get("properties", ()))

    def read(self, data: bytes) -> Any:
        """As JSON is read, of any JSON Schema; raises SerializationError, SchemaRegistryError."""
        self._registered.written_schema(self._registered.schema_id(data))
        return self._json.read(data[HEAD_SIZE:])
