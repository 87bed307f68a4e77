"""Protobuf with a schema registry, one value at a time and in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, overload

import polars as pl
import pyarrow as pa

from hayase.core.errors import ConfigError, SchemaRegistryError, SerializationError
from hayase.core.objects import FieldValues
from hayase.core.type_variables import T
from hayase.serde.bare import READ_ERRORS, cast, read_each, refuse
from hayase.serde.framed import FramedCodec, FramedSerde
from hayase.serde.protobuf_schema import (
    ProtobufSchema,
    as_text,
    compiled,
    is_built_in,
    package,
    read_indexes,
    schema_of_descriptor,
    write_indexes,
)
from hayase.serde.protobuf_values import MessageForm
from hayase.serde.protocol import ColumnCodec, Decoded, Schema
from hayase.serde.registry import Kind, RegistrySchema, SchemaReference, SchemaRegistry
from hayase.serde.registry_serde import HEAD_SIZE, WriterSettings

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


class ProtobufSerde(FramedSerde[T]):
    r"""Protobuf in Confluent's wire format, schemas in a registry: Kafka Streams' KafkaProtobufSerde.

    * `ProtobufSerde(Order)`, a class that protoc made: values are its instances, in rows; fields that the class does
      not know stay in the instance and are written again.
    * `ProtobufSerde(Order.DESCRIPTOR)`, or the text of a .proto file: values are dicts, with a column form. Fields that
      the message does not have are dropped.
    * `ProtobufSerde()`: dicts of whatever message a record was written as, in rows; written by the newest version of
      the subject.

    In dicts all fields are present. One that is not set is `None` if it can tell (`optional`, in a oneof, a message),
    else its default. Numbers, text, bytes, bool, lists and dicts (maps) are Python's; an enum is its name, or the
    number as text if the schema does not have it; a message is a dict, but Timestamp is a `datetime` (UTC) and Duration
    a `timedelta`, both cut to microseconds, wrappers (`Int64Value`) are their value, Struct, Value and ListValue what
    JSON has for them. When written, fields that are missing or `None` are not set, and names that the message does not
    have are refused. There is no column form for messages that hold themselves, that have no fields, and with Struct,
    Value or ListValue.

    Null bytes are null. As in Kafka, a record is read as this serde's message whatever message it was written as:
    fields find each other by their numbers, and nothing notices that a record is of another type whose numbers fit.

    The schema that is registered for a class or descriptor is the file's descriptor in base64, as Confluent's own
    clients without the text do, with the files it imports under subjects named after them (Google's and Confluent's
    excepted).

    Args:
        schema: as above; needs protoc (of the extra) if it is text or `None`, or with `use_latest_version`.
        registry: a SchemaRegistry or its URL; `None`: the application's `schema.registry.url`.
        message: of text, which message: its full name, or without the package; `None`: the first of the file. Without a
            schema: which message of the newest version is written.
        references: where the files are registered that the text imports.
        options: `auto_register_schemas`, `use_latest_version`, `normalize_schemas`, `subject_name_strategy`: see
            WriterOptions; the record's name is the message's full name.

    Raises:
        ConfigError: `INVALID_SCHEMA`, or settings that exclude each other.
        MissingRequirementError: the extra `schema-registry` is not installed.

    Example:
        >>> from hayase.testing import SchemaRegistryServer
        >>> with SchemaRegistryServer() as server:
        ...     serde = ProtobufSerde('syntax = "proto3"; message Word { string text = 1; }', server.url)
        ...     serde.for_topic("words", "value", {}).serialize({"text": "hi"})
        b'\x00\x00\x00\x00\x01\x00\n\x02hi'
    """

    kind: ClassVar[Kind] = "PROTOBUF"
    _KEPT = (*FramedSerde._KEPT, "_class", "_message_name")

    @overload
    def __init__(
        self: ProtobufSerde[T],
        schema: type[T],
        registry: SchemaRegistry | str | None = None,
        *,
        message: str | None = None,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ProtobufSerde,
        schema: str | Descriptor | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        message: str | None = None,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None: ...
    def __init__(
        self,
        schema: str | Descriptor | type[object] | None = None,
        registry: SchemaRegistry | str | None = None,
        *,
        message: str | None = None,
        references: Iterable[SchemaReference] = (),
        **options: Unpack[WriterSettings],
    ) -> None:
        self._class: type[Message] | None = None
        self._files: tuple[bytes, ...] | None = None  # compiled here, so that workers need no protoc
        self._message_name = message
        own: RegistrySchema | None = None
        if isinstance(schema, str):
            own = RegistrySchema(schema, "PROTOBUF", tuple(references))
        elif schema is not None:
            descriptor = self._given(schema)
            self._files, self._message_name = schema_of_descriptor(descriptor).files, descriptor.full_name
            own = RegistrySchema(as_text(descriptor.file), "PROTOBUF")
        super().__init__(registry, own, options)
        if own is not None and not own.references:
            _ = self._own_message  # a schema that is none is refused here

    def _given(self, schema: object) -> Descriptor:
        message = package("google.protobuf.message")
        if isinstance(schema, package("google.protobuf.descriptor").Descriptor):
            descriptor: Descriptor = schema
            return descriptor
        if isinstance(schema, type) and issubclass(schema, message.Message):
            message_class: type[Message] = schema
            self._class = message_class
            return message_class.DESCRIPTOR
        raise ConfigError(
            "INVALID_SCHEMA",
            "ProtobufSerde takes a class that protoc made, its DESCRIPTOR, or the text of a .proto file; it was given "
            f"{schema!r:.200}",
        )

    def __getstate__(self) -> tuple[object, ...]:
        return (self._files, *super().__getstate__())

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._files = state[0]
        super().__setstate__(state[1:])

    def _forget(self) -> None:
        self._written: tuple[bytes, MessageForm] | None = None
        for name in ("_schema", "_own_message", "form"):
            self.__dict__.pop(name, None)

    @cached_property
    def _schema(self) -> ProtobufSchema:
        """The serde's own file."""
        if self._files is None:
            assert self._own is not None, "a serde without a schema has no file of its own"
            self._files = self._compiled(self._own).files
        return ProtobufSchema(self._files)

    @cached_property
    def _own_message(self) -> tuple[tuple[int, ...], Descriptor]:
        """Indexes and descriptor of the serde's own message."""
        indexes, descriptor = self._schema.message(self._message_name)
        return indexes, descriptor if self._class is None else self._class.DESCRIPTOR

    @cached_property
    def form(self) -> MessageForm | None:
        """How the serde's own message is read and written; `None` if it was given none."""
        return None if self._own is None else MessageForm(self._own_message[1])

    def _compiled(self, schema: RegistrySchema) -> ProtobufSchema:
        return compiled(schema, lambda each: self.registry.version(each.subject, each.version).schema)

    def _file(self, schema: RegistrySchema) -> ProtobufSchema:
        """A schema of the registry, compiled once per process; raises ConfigError."""
        return self.made(("protobuf", schema), lambda: self._compiled(schema))

    def _read_form(self, schema: RegistrySchema, indexes: tuple[int, ...]) -> MessageForm:
        """The message of a record by a schema of the registry.

        Raises SerializationError, and ValueError if there is none.
        """
        messages = self.made_of(schema, ("protobuf messages", schema), lambda: self._file(schema).messages)
        if indexes not in messages:
            raise ValueError(f"the .proto file has no message with the indexes {list(indexes)}")
        key = ("protobuf message", schema, indexes)
        return self.made_of(schema, key, lambda: MessageForm(messages[indexes]))

    def _form_of(self, schema: RegistrySchema, indexes: tuple[int, ...]) -> MessageForm:
        """A message of a schema of the registry; raises ConfigError."""
        messages = self._file(schema).messages
        if indexes not in messages:
            raise ConfigError("INVALID_SCHEMA", f"the .proto file has no message with the indexes {list(indexes)}")
        return self.made(("protobuf message", schema, indexes), lambda: MessageForm(messages[indexes]))

    def _writing(self) -> tuple[bytes, MessageForm]:
        """The bytes before what is written, and how that is written."""
        if self._written is None:
            own, name, form = self._own, self._message_name, self.form
            if own is not None:
                own, name = self._with_imports(own), self._own_message[1].full_name
            schema_id, schema = self.writing(own, name or "")
            indexes = self._own_message[0] if schema is own else self._file(schema).message(name)[0]
            head = self.head(schema_id) + write_indexes(indexes)
            self._written = (head, form or self._form_of(schema, indexes))
        return self._written

    def _with_imports(self, own: RegistrySchema) -> RegistrySchema:
        """The schema with references to the files it imports, which are registered or, without registration, found."""
        if own.references or self._options.uses_latest:
            return own
        files = self._schema.imports()

        def registered(name: str) -> tuple[SchemaReference, ...]:
            schema_references = []
            for each in files[name]:
                if not is_built_in(each):
                    schema = RegistrySchema(self._schema.text(each), "PROTOBUF", registered(each))
                    if self._options.registers:
                        self.registry.register(each, schema)
                    version = self.registry.lookup(each, schema).version
                    if version is None:
                        raise SchemaRegistryError(
                            "SCHEMA_REGISTRY_FAILED",
                            f"the schema registry did not say which version of {each!r} that is",
                        )
                    schema_references.append(SchemaReference(each, each, version))
            return tuple(schema_references)

        references = self.made(("protobuf imports", own), lambda: registered(self._schema.name))
        return RegistrySchema(own.text, own.kind, references)

    def written_head(self) -> bytes:
        """The bytes before what is written: what all records of a registry have, and the message's indexes."""
        return self._writing()[0]

    def to_bytes(self, value: object) -> bytes:
        """Raises SerializationError for what does not fit the message, SchemaRegistryError if there is no id for it."""
        head, form = self._writing()
        return head + self.payload(value, form)

    def payload(self, value: object, form: MessageForm) -> bytes:
        """The bytes of a value behind the head; raises SerializationError."""
        if self._class is not None and not isinstance(value, self._class):
            raise refuse(self, value, f"instances of {self._class.__name__}")
        try:
            return form.serialize(form.message(value) if self._class is None else value)  # type: ignore[arg-type] # checked
        except READ_ERRORS as error:
            raise refuse(self, value, f"the message {form.name}: {error}") from error

    def from_bytes(self, data: bytes) -> Any:
        """Raises SerializationError for bytes that are no such value or carry an id that the registry does not have."""
        schema = self.written_schema(self.schema_id(data))
        form, payload = self.form, data[HEAD_SIZE:]
        if form is None:
            try:
                form = self._read_form(schema, read_indexes(payload, 0)[0])
            except SerializationError:
                raise
            except ValueError as error:
                raise self.unreadable(payload, "a message of the registry", error) from error
        try:
            message = form.parse(payload)
            return message if self._class is not None else form.value(message)
        except READ_ERRORS as error:
            raise self.unreadable(payload, f"the message {form.name}", error) from error

    def unreadable(self, payload: bytes, expected: str, error: BaseException) -> SerializationError:
        """The error for bytes behind the head that are no such message."""
        message = (
            f"ProtobufSerde reads {expected}: {error}; behind the schema id there are {len(payload)} bytes: "
            f"{payload[:60]!r}"
        )
        return SerializationError("VALUE_NOT_DESERIALIZABLE", message)

    @property
    def columns(self) -> ColumnCodec | None:
        """One column per field; `None` for classes, without a schema, or if the message has no column form."""
        if self._class is not None or self._own is None:
            return None
        if self._files is None and self._registry is None:  # the text imports what is in a registry
            return None
        inner = _codec_of(self)
        return None if inner is None else FramedCodec(self, inner)


class _ProtobufCodec(ColumnCodec):
    """The column form of what is behind the head."""

    def __init__(self, serde: ProtobufSerde, form: MessageForm, columns: Schema) -> None:
        self._serde = serde
        self._form = form
        self._schema = columns

    def __reduce__(self) -> tuple[object, ...]:
        return (_codec_of, (self._serde,))

    @property
    def schema(self) -> Schema:
        return self._schema

    def decode(self, data: pa.Array, fields: frozenset[str] | None = None) -> Decoded:
        return self.decode_list(data.to_pylist(), fields)

    def decode_list(self, values: Sequence[bytes | None], fields: frozenset[str] | None = None) -> Decoded:
        null = pl.Series([value is None for value in values], dtype=pl.Boolean)
        messages, bad = read_each(self._parse, values, self._error)
        wanted = [each for each in self._schema.fields if fields is None or each[0] in fields]
        try:
            frame = self._form.frame(messages, wanted)
        except READ_ERRORS:  # a time that Python does not have
            _, unfit = read_each(
                self._whole, list(enumerate(messages)), lambda item, error: self._error(values[item[0]], error)
            )
            for index, error in unfit:
                bad.append((index, error))
                messages[index] = None
            frame = self._form.frame(messages, wanted)
        return Decoded(frame, null, sorted(bad, key=lambda each: each[0]))

    def _parse(self, payload: bytes | None) -> Message | None:
        return None if payload is None else self._form.parse(payload)

    def _whole(self, numbered: tuple[int, Message | None]) -> FieldValues | None:
        return None if numbered[1] is None else self._form.value(numbered[1])

    def _error(self, value: bytes | None, error: BaseException) -> Exception:
        return self._serde.unreadable(value or b"", f"the message {self._form.name}", error)

    def encode(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[bytes | None]:
        return [None if row is None else self._serde.payload(row, self._form) for row in self.to_python(frame, null)]

    def to_python(self, frame: pl.DataFrame, null: pl.Series | None = None) -> list[object]:
        names = self._schema.names
        columns = [cast(self._serde, frame[name], dtype).to_list() for name, dtype in self._schema.fields]
        rows: list[object] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        if null is None or not null.any():
            return rows
        return [None if gone else row for row, gone in zip(rows, null.to_list(), strict=True)]

    def from_python(self, values: Sequence[object]) -> tuple[pl.DataFrame, pl.Series]:
        """A value becomes what it would be after it was written and read."""
        decoded = self.decode_list([None if v is None else b"\0" + self._serde.payload(v, self._form) for v in values])
        if decoded.bad:
            raise SerializationError("VALUE_NOT_SERIALIZABLE", str(decoded.bad[0][1]))
        return decoded.frame, decoded.null


def _codec_of(serde: ProtobufSerde) -> ColumnCodec | None:
    form = serde.form
    return None if form is None or form.columns is None else _ProtobufCodec(serde, form, form.columns)
