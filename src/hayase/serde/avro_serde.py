"""Avro with a schema registry, one value at a time; its column form is in `avro_columns`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, ClassVar, Self, Unpack

from hayase.core.config_values import whole
from hayase.core.errors import SerializationError
from hayase.serde.avro_columns import AvroCodec
from hayase.serde.avro_limits import EMPTY_ITEMS_MAX, AvroType
from hayase.serde.avro_schema import AvroSchema, inlined, load
from hayase.serde.bare import refuse
from hayase.serde.faults import said
from hayase.serde.protocol import ColumnCodec, Side
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference, SchemaRegistry, check_references
from hayase.serde.registry_serde import EMPTY_ITEMS, HEAD_SIZE, RegistrySerde, WriterSettings


class AvroSerde(RegistrySerde):
    r"""Avro in Confluent's wire format, schemas in a registry: Kafka Streams' GenericAvroSerde.

    Values are dicts (of a schema that is no record: the value itself). Numbers, text, bytes, bool, lists and dicts are
    Python's; decimal is `Decimal`, date is `date`, time-millis and -micros are `time`, timestamp-millis and -micros are
    `datetime` with a time zone (UTC when read), local-timestamp is `datetime` without; enums and uuids are text, all
    other logical types are read as what they are written in. Where a union has several types that fit a value, a tuple
    `(full name, value)` says which.

    Read are records of any schema of the registry, resolved to `schema` by Avro's rules (the writer's fields that it
    does not have are ignored, its own that the writer did not have take their defaults); without `schema`, as they were
    written. Bytes behind the value are ignored, as in Kafka. Null bytes are null (a tombstone) and need no schema.

    It has a column form if it was given a `schema` without recursion, unions only of one type with null, and decimals
    of at most 38 digits: int is Int32, long Int64, float Float32, map Map, fixed Binary, enum String, and so on.
    Schemas with bytes, fixed, decimal or time types decode in columns several times slower than others.

    Args:
        schema: JSON text, the name of a primitive type, or the JSON as dict or list; what is read to and written by.
            `None`: values are read as they were written, and written by the newest version of the subject.
        registry: a SchemaRegistry or its URL; `None`: the application's `schema.registry.url`.
        references: where the names in `schema` that it does not define are registered.
        options: `auto_register_schemas`, `use_latest_version`, `normalize_schemas`, `subject_name_strategy`: see
            WriterOptions.

    Attributes:
        empty_items_max: how many values without bytes (nulls in an array, empty records) one value may have; what
            claims more is refused, and so is a value that is nested more than 1,000 deep. The setting
            `avro.empty.items.max`; default 100,000.

    Raises:
        ConfigError: `INVALID_SCHEMA`, or settings that exclude each other.

    Example:
        >>> from hayase.testing import SchemaRegistryServer
        >>> with SchemaRegistryServer() as server:
        ...     serde = AvroSerde("string", server.url).for_topic("words", "key", {})
        ...     serde.serialize("hi")
        b'\x00\x00\x00\x00\x01\x04hi'
    """

    kind: ClassVar[Kind] = "AVRO"
    _KEPT = (*RegistrySerde._KEPT, "empty_items_max")

    def __init__(
        self,
        schema: str | Mapping[str, object] | Sequence[object] | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None:
        own: RegistrySchema | None = None
        if schema is not None:
            definition = load(schema) if isinstance(schema, str) else schema
            as_given = isinstance(schema, str) and definition != schema.strip()
            text = schema if as_given else json.dumps(definition)
            own = RegistrySchema(str(text), "AVRO", tuple(references))
        self.empty_items_max = EMPTY_ITEMS_MAX
        super().__init__(registry, own, options)
        if own is not None and not own.references:
            _ = self.reader  # a schema that is none is refused here

    def for_topic(self, topic: str, side: Side, settings: Mapping[str, object]) -> Self:
        """See RegistrySerde; `avro.empty.items.max` is the serde's own."""
        bound = super().for_topic(topic, side, settings)
        if EMPTY_ITEMS in settings:
            bound.empty_items_max = whole(0)(EMPTY_ITEMS, settings[EMPTY_ITEMS])
        return bound

    def _forget(self) -> None:
        self._reader: AvroSchema | None = None
        self._codec: ColumnCodec | None = None
        self._writing_by: tuple[bytes, AvroSchema] | None = None
        self._resolved: dict[AvroSchema, AvroType | None] = {}

    @property
    def reader(self) -> AvroSchema | None:
        """The serde's own schema, parsed; `None` if it was given none."""
        if self._reader is None and self._own is not None:
            self._reader = self._parsed(self._own)
        return self._reader

    def writer(self, schema_id: int) -> AvroSchema:
        """The schema that a record was written by; raises as `written_schema`."""
        schema = self.written_schema(schema_id)
        return self.made_of(schema, ("avro", schema), lambda: self._parsed(schema))

    def _parsed(self, schema: RegistrySchema) -> AvroSchema:
        named = self._named(schema, {}) if schema.references else {}
        return AvroSchema(inlined(load(schema.text), named))

    def _named(self, schema: RegistrySchema, named: dict[str, AvroType]) -> dict[str, AvroType]:
        pending = list(schema.references)
        while pending:
            reference = pending.pop()
            if reference.name not in named:
                used = self.registry.version(reference.subject, reference.version).schema
                named[reference.name] = load(used.text)
                pending += used.references
                check_references(len(named))
        return named

    def writing_by(self) -> tuple[bytes, AvroSchema]:
        """The head of what is written, and the schema it is written by."""
        if self._writing_by is None:
            reader = self.reader
            schema_id, schema = self.writing(self._own, "" if reader is None else reader.name)
            if reader is None or schema is not self._own:
                reader = self.made(("avro", schema), lambda: self._parsed(schema))
            self._writing_by = (self.head(schema_id), reader)
        return self._writing_by

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for what does not fit the schema, SchemaRegistryError if there is no id for it."""
        head, schema = self.writing_by()
        return head + self.payload(value, schema)

    def payload(self, value: object, schema: AvroSchema) -> bytes:
        """The bytes of a value behind the head; raises SerializationError."""
        from fastavro import schemaless_writer, validate

        if schema.raw_bytes and isinstance(value, bytes):
            return value
        target = BytesIO()
        try:
            validate(value, schema.parsed)
            schemaless_writer(target, schema.parsed, value)
        except Exception as error:  # fastavro has no common one for values that do not fit
            reason = " ".join(str(error).strip("[]\n").split()) or type(error).__name__
            raise refuse(self, value, f"Avro by the schema {schema.name}: {reason}") from error
        return target.getvalue()

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError for bytes that are no such value or carry an id that the registry does not have."""
        return self.read(data, self.writer(self.schema_id(data)))

    def read(self, data: bytes, writer: AvroSchema) -> Any:
        """The value of a record whose writer's schema is known; raises SerializationError."""
        from fastavro import schemaless_reader

        reader = self.reader
        if writer not in self._resolved:  # fastavro is several times faster without a second schema
            same = reader is None or reader.parsed == writer.parsed
            self._resolved[writer] = None if same or reader is None else reader.parsed
        if writer.raw_bytes:
            if reader is not None and "bytes" not in (reader.parsed if reader.bare else ()):
                raise SerializationError(
                    "VALUE_NOT_DESERIALIZABLE",
                    f"the record is bytes (id {self.schema_id(data)} in {self.registry.url}), which cannot be read as "
                    f"{reader.name}; the value is {data[:60]!r}",
                )
            return data[HEAD_SIZE:]
        source = BytesIO(data)
        source.seek(HEAD_SIZE)
        try:
            if writer.check is not None:
                writer.check(data, HEAD_SIZE, self.empty_items_max)
            value = schemaless_reader(source, writer.parsed, self._resolved[writer])
            limit = (reader or writer).over_limit
            if limit is not None and limit(value):
                raise ValueError("an int beyond 32 bits, or a decimal of more digits than its precision")
        except Exception as error:  # fastavro has no common one for bytes that are no value
            raise SerializationError(
                "VALUE_NOT_DESERIALIZABLE",
                f"not Avro of the schema {writer.name} (id {self.schema_id(data)} in {self.registry.url})"
                + ("" if reader is None or reader is writer else f" that can be read as {reader.name}")
                + f": {said(error)}; the value is {data[:60]!r}",
            ) from error
        return value

    @property
    def columns(self) -> ColumnCodec | None:
        """One column per field; `None` without a schema, or if it has no column form."""
        if self._own is None or (self._own.references and self._registry is None):
            return None
        reader = self.reader
        if self._codec is None and reader is not None and reader.columns is not None:
            self._codec = AvroCodec(self, reader, reader.columns)
        return self._codec
