"""JSON with a schema registry: Confluent's wire format around what JsonSerde writes and reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Unpack, overload

import msgspec

from hayase.core.errors import ConfigError
from hayase.core.type_variables import T
from hayase.serde.framed import FramedCodec, FramedSerde
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import ColumnCodec
from hayase.serde.pydantic_models import is_model
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE, WriterSettings


class JsonSchemaSerde(FramedSerde[T]):
    r"""JSON in Confluent's wire format, JSON Schemas in a registry: Kafka Streams' KafkaJsonSchemaSerde.

    * `JsonSchemaSerde(Order)`: instances of a dataclass, msgspec.Struct or Pydantic model. The JSON Schema is made from
      the type; what does not fit the type is refused when read and when written. Has a column form where
      `JsonSerde(Order)` has one.
    * `JsonSchemaSerde(schema)`: any JSON value, in rows; the JSON Schema (text or dict) is registered, and values are
      not checked against it, as in Kafka, where `json.fail.invalid.schema` is false.
    * `JsonSchemaSerde()`: any JSON value, in rows; written by the newest version of the subject.

    Read are records of any JSON Schema of the registry. Null bytes are null, and so is the text `null`.

    Args:
        schema: as above.
        registry: a SchemaRegistry or its URL; `None`: the application's `schema.registry.url`.
        references: where the schemas are registered that `schema` refers to.
        options: `auto_register_schemas`, `use_latest_version`, `normalize_schemas`, `subject_name_strategy`: see
            WriterOptions; the record's name is the schema's `title`.

    Raises:
        ConfigError: `INVALID_SCHEMA`, or settings that exclude each other.

    Example:
        >>> from hayase.testing import SchemaRegistryServer
        >>> with SchemaRegistryServer() as server:
        ...     serde = JsonSchemaSerde({"type": "object"}, server.url).for_topic("t", "value", {})
        ...     serde.serialize({"a": 1})
        b'\x00\x00\x00\x00\x01{"a":1}'
    """

    kind: ClassVar[Kind] = "JSON"
    _KEPT = (*FramedSerde._KEPT, "_python_type")

    @overload
    def __init__(
        self: JsonSchemaSerde[T],
        schema: type[T],
        registry: SchemaRegistry | str | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: JsonSchemaSerde,
        schema: str | Mapping[str, object] | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None: ...
    def __init__(
        self,
        schema: type[object] | str | Mapping[str, object] | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None:
        self._python_type = schema if isinstance(schema, type) else None
        own = None if schema is None else RegistrySchema(_text(schema), "JSON", tuple(references))
        super().__init__(registry, own, options)

    @property
    def python_type(self) -> type[object] | None:
        """The type of the values; `None` if a schema, or nothing, says what they are."""
        return self._python_type

    def _forget(self) -> None:
        self._json = JsonSerde(self._python_type)
        self._head: bytes | None = None

    def written_head(self) -> bytes:
        """The bytes before what is written."""
        if self._head is None:
            name = "" if self._own is None else _title(self._own.text)
            schema_id, _ = self.writing(self._own, name)
            self._head = self.head(schema_id)
        return self._head

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for a value that does not fit, SchemaRegistryError if the schema has no id."""
        return self.written_head() + self._json.to_bytes(value)

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError for bytes that are no such value or carry an id that the registry does not have."""
        self.written_schema(self.schema_id(data))
        return self._json.from_bytes(data[HEAD_SIZE:])

    @property
    def columns(self) -> ColumnCodec | None:
        """One column per field; `None` without a type, or if it has no column form."""
        inner = None if self._python_type is None else self._json.columns
        return None if inner is None else FramedCodec(self, inner)


def _text(schema: type[object] | str | Mapping[str, object]) -> str:
    try:
        if isinstance(schema, type):
            generated = schema.model_json_schema() if is_model(schema) else msgspec.json.schema(schema)
            name = schema.__name__
            return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": name, **generated})
        parsed = json.loads(schema) if isinstance(schema, str) else schema
    except (TypeError, ValueError) as error:
        raise ConfigError("INVALID_SCHEMA", f"no JSON Schema can be had from {schema!r:.200}: {error}") from error
    if not isinstance(parsed, Mapping):
        raise ConfigError("INVALID_SCHEMA", f"a JSON Schema is an object; it was given {schema!r:.200}")
    return schema if isinstance(schema, str) else json.dumps(parsed)


def _title(text: str) -> str:
    return str(json.loads(text).get("title", ""))
