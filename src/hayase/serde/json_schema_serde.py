"""JSON with a schema registry: Confluent's wire format around what JsonSerde writes and reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import polars as pl
import pyarrow as pa

from hayase.core.errors import ConfigError, SerializationError
from hayase.serde.json_serde import JsonSerde
from hayase.serde.protocol import ColumnCodec, Decoded, Schema
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE, RegistrySerde, SubjectNameStrategy, WriterOptions


class JsonSchemaSerde(RegistrySerde):
    r"""JSON in Confluent's wire format, JSON Schemas in a registry: Kafka Streams' KafkaJsonSchemaSerde.

    * `JsonSchemaSerde(Order)`: instances of a dataclass or msgspec.Struct. The JSON Schema is made from the type; what
      does not fit the type is refused when read and when written. Has a column form where `JsonSerde(Order)` has one.
    * `JsonSchemaSerde(schema)`: any JSON value, in rows; the JSON Schema (text or dict) is registered, and values are not
      checked against it, as in Kafka, where `json.fail.invalid.schema` is false.
    * `JsonSchemaSerde()`: any JSON value, in rows; written by the newest version of the subject.

    Read are records of any JSON Schema of the registry. Null bytes are null, and so is the text `null`.

    Args:
        schema: as above.
        registry: a SchemaRegistry or its URL; `None`: the application's `schema.registry.url`.
        references: where the schemas are registered that `schema` refers to.
        auto_register_schemas: see WriterOptions, as for the next three.
        use_latest_version: see WriterOptions.
        normalize_schemas: see WriterOptions.
        subject_name_strategy: see WriterOptions; the record's name is the schema's `title`.

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

    def __init__(
        self,
        schema: type[Any] | str | Mapping[str, Any] | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        auto_register_schemas: bool | None = None,
        use_latest_version: bool | None = None,
        normalize_schemas: bool | None = None,
        subject_name_strategy: SubjectNameStrategy | None = None,
    ) -> None:
        super().__init__(
            registry,
            WriterOptions(auto_register_schemas, use_latest_version, normalize_schemas, subject_name_strategy),
        )
        self._python_type = schema if isinstance(schema, type) else None
        self._own: RegistrySchema | None = None
        if schema is not None:
            self._own = RegistrySchema(_text(schema), "JSON", tuple(references))
        self._forget()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._whole()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._registry, self._options, self._topic, self._side, self._python_type, self._own = state
        self._forget()

    def _identity(self) -> tuple[Any, ...]:
        return (self._python_type, self._own)

    def _forget(self) -> None:
        self._json = JsonSerde(self._python_type)
        self._head: bytes | None = None

    def written_head(self) -> bytes:
        """The bytes before what is written."""
        if self._head is None:
            name = "" if self._own is None else str(_title(self._own.text))
            schema_id, _ = self.writing(self._own, name)
            self._head = self.head(schema_id)
        return self._head

    def to_bytes(self, value: Any) -> bytes:
        """Raises SerializationError for what does not fit the type, SchemaRegistryError if there is no id for the schema."""
        return self.written_head() + self._json.to_bytes(value)

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError for bytes that are no such value or carry an id that the registry does not have."""
        self.written_schema(self.schema_id(data))
        return self._json.from_bytes(data[HEAD_SIZE:])

    @property
    def columns(self) -> ColumnCodec | None:
        """One column per field; `None` without a type, or if it has no column form."""
        inner = None if self._python_type is None else self._json.columns
        return None if inner is None else _FramedCodec(self, inner)


class _FramedCodec(ColumnCodec):
    """The column form of JSON with a head in front."""

    def __init__(self, serde: JsonSchemaSerde, inner: ColumnCodec) -> None:
        self._serde = serde
        self._inner = inner

    def __reduce__(self) -> tuple[Any, ...]:
        return (_FramedCodec, (self._serde, self._inner))

    @property
    def schema(self) -> Schema:
        return self._inner.schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        refused: dict[bytes, SerializationError] = {}
        for head, sample in {value[:HEAD_SIZE]: value for value in values if value is not None}.items():
            try:
                self._serde.written_schema(self._serde.schema_id(sample))
            except SerializationError as error:
                refused[head] = error
        if not refused:
            return self._inner.decode_list([None if value is None else value[HEAD_SIZE:] for value in values], fields)
        bad: list[tuple[int, Exception]] = []
        payloads: list[bytes | None] = []
        for index, value in enumerate(values):
            why = None if value is None else refused.get(value[:HEAD_SIZE])
            if why is not None:
                bad.append((index, why))
            payloads.append(None if value is None or why is not None else value[HEAD_SIZE:])
        found = self._inner.decode_list(payloads, fields)
        null = found.null.scatter([index for index, _ in bad], False)
        return Decoded(found.frame, null, sorted([*found.bad, *bad], key=lambda each: each[0]))

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        texts = self._inner.encode(frame, null)
        head = self._serde.written_head() if any(text is not None for text in texts) else b""
        return [None if text is None else head + text for text in texts]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[Any]:
        return self._inner.to_python(frame, null)

    def from_python(self, values: Sequence[Any]) -> tuple[pl.DataFrame, pl.Series]:
        return self._inner.from_python(values)


def _text(schema: type[Any] | str | Mapping[str, Any]) -> str:
    try:
        if isinstance(schema, type):
            found: Any = msgspec.json.schema(schema)
            name = schema.__name__
            return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": name, **found})
        parsed = json.loads(schema) if isinstance(schema, str) else schema
    except (TypeError, ValueError) as error:
        raise ConfigError("INVALID_SCHEMA", f"no JSON Schema can be had from {schema!r:.200}: {error}") from error
    if not isinstance(parsed, Mapping):
        raise ConfigError("INVALID_SCHEMA", f"a JSON Schema is an object; it was given {schema!r:.200}")
    return schema if isinstance(schema, str) else json.dumps(parsed)


def _title(text: str) -> Any:
    return json.loads(text).get("title", "")
