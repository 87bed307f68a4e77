"""The Protobuf converter with a schema registry: Confluent's `ProtobufConverter`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hayase.connect.config.config_def import ConfigDef, Importance, TypedConfig
from hayase.connect.config.types import ConfigType
from hayase.connect.converters.protobuf_schemas import (
    DECIMAL_MESSAGE,
    LOGICAL_MESSAGES,
    MessageWriter,
    is_entry,
    schema_of,
)
from hayase.connect.converters.registry_converter import (
    ReadValues,
    RegistryConverter,
    payload_of,
    registry_config,
)
from hayase.connect.exceptions import DataError
from hayase.connect.logical_types import decimal_from_bytes, unscaled_bytes
from hayase.connect.schema import ConnectSchema, SchemaAndValue, validate_value
from hayase.serde.bare import READ_ERRORS
from hayase.serde.protobuf_schema import compiled, package, read_indexes
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import RegistrySchema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_NANOS_PER_MICRO = 1000


@dataclass(slots=True)
class ProtobufWriter:
    """Writes values of one schema into one topic."""

    serde: ProtobufSerde
    schema: ConnectSchema
    message: Any


class ProtobufConverter(RegistryConverter[ProtobufWriter]):
    """Protobuf in Confluent's wire format; the message of each record is a version of the topic's subject.

    Null in a field comes back as the default of its type, unless `optional.for.nullables` is set, as with Confluent's
    converter. The fields of a `oneof` are read as fields of their own, those that are not set as null
    (`flatten.unions`). A message that holds itself is refused.
    """

    @classmethod
    def config(cls) -> ConfigDef:
        """The keys of the converter."""
        return registry_config().define(
            "optional.for.nullables",
            ConfigType.BOOLEAN,
            False,
            importance=Importance.LOW,
            documentation="Whether fields that may be null are written as optional fields, so that null stays null.",
        )

    def setup(self, config: TypedConfig) -> None:
        """See RegistryConverter."""
        self._optional = config.bool("optional.for.nullables")
        self._serde = ProtobufSerde(None, self.registry)

    def make_writer(self, topic: str, schema: ConnectSchema | None) -> ProtobufWriter:
        """See RegistryConverter."""
        if schema is None:
            raise DataError("INVALID_SCHEMA", "Protobuf needs a schema")
        descriptor = MessageWriter(optional_fields=self._optional).descriptor(schema)
        serde = ProtobufSerde(descriptor, self.registry, **self.options).for_topic(topic, self.side, {})
        message = package("google.protobuf.message_factory").GetMessageClass(descriptor)
        return ProtobufWriter(serde, schema, message)

    def write(self, writer: ProtobufWriter, value: object) -> bytes:
        """See RegistryConverter."""
        validate_value(writer.schema, value)
        assert isinstance(value, dict), "it fits a struct"
        message = writer.message()
        try:
            _fill(message, value)
            payload: bytes = message.SerializeToString(deterministic=True)
        except READ_ERRORS as error:
            raise DataError("INVALID_VALUE", f"the value does not fit its Protobuf message: {error}") from error
        return writer.serde.written_head() + payload

    def read(self, topic: str, data: bytes) -> SchemaAndValue:
        """See RegistryConverter."""
        serde = self._serde
        written = serde.written_schema(serde.schema_id(data))
        payload = payload_of(data)
        try:
            indexes, at = read_indexes(payload, 0)
        except ValueError as error:
            raise DataError("INVALID_VALUE", f"the bytes are no Protobuf of a schema registry: {error}") from error
        key = ("protobuf of connect", written, indexes)
        schema, message, read = serde.made_of(written, key, lambda: self._reader(written, indexes))
        try:
            return SchemaAndValue(schema, read(message.FromString(payload[at:])))
        except READ_ERRORS as error:
            raise DataError("INVALID_VALUE", f"the bytes are no message {schema.name}: {error}") from error

    def read_values(self, topic: str, data: Sequence[bytes]) -> ReadValues | None:
        """See RegistryConverter."""
        read = [self.read(topic, each) for each in data]
        schema = read[0].schema
        if schema is None or any(each.schema is not schema for each in read):  # other messages of the same file
            return None
        return ReadValues([each.value for each in read], schema, lambda _: lambda column: column)

    def _reader(
        self, written: RegistrySchema, indexes: tuple[int, ...]
    ) -> tuple[ConnectSchema, Any, Callable[[Any], object]]:
        file = compiled(written, lambda each: self.registry.version(each.subject, each.version).schema)
        descriptor = file.messages.get(indexes)
        if descriptor is None:
            raise DataError("INVALID_SCHEMA", f"the .proto file has no message with the indexes {list(indexes)}")
        message = package("google.protobuf.message_factory").GetMessageClass(descriptor)
        return schema_of(descriptor), message, _message_reader(descriptor)


def _fill(message: Any, value: dict[Any, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, given in value.items():
        if given is None:
            continue
        field = fields[name]
        target = getattr(message, name)
        if not field.is_repeated:
            _set(message, field, given)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            into = field.message_type.fields_by_name["value"].message_type
            for key, each in given.items():
                if into is None:
                    target[key] = each
                else:
                    _fill_one(target[key], each)
        elif is_entry(field) and isinstance(given, dict):
            for key, each in given.items():
                _fill(target.add(), {"key": key, "value": each})
        elif field.message_type is not None:
            for each in given:
                _fill_one(target.add(), each)
        else:
            target.extend(given)


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if field.message_type is None:
        setattr(message, field.name, value)
        return
    target = getattr(message, field.name)
    target.SetInParent()
    _fill_one(target, value)


def _fill_one(target: Any, value: Any) -> None:
    """Fill a message with a struct or a value of a logical type."""
    match target.DESCRIPTOR.full_name:
        case "google.protobuf.Timestamp":
            target.FromDatetime(value)
        case "google.type.Date":
            target.year, target.month, target.day = value.year, value.month, value.day
        case "google.type.TimeOfDay":
            target.hours, target.minutes, target.seconds = value.hour, value.minute, value.second
            target.nanos = value.microsecond * _NANOS_PER_MICRO
        case name if name == DECIMAL_MESSAGE:
            scale = -value.as_tuple().exponent
            target.value, target.scale = unscaled_bytes(value, scale), scale
            target.precision = len(value.as_tuple().digits)
        case _:
            _fill(target, value)


def _message_reader(descriptor: Descriptor) -> Callable[[Any], dict[str, object]]:
    readers = [(str(field.name), _field_reader(field)) for field in descriptor.fields]
    return lambda message: {name: read(message) for name, read in readers}


def _field_reader(field: FieldDescriptor) -> Callable[[Any], object]:
    name, kind = str(field.name), field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        each = _reader_of(kind.fields_by_name["value"])
        return lambda message: {key: each(value) for key, value in getattr(message, name).items()}
    one = _reader_of(field)
    if field.is_repeated:
        if is_entry(field):
            return lambda message: {entry["key"]: entry["value"] for entry in map(one, getattr(message, name))}  # type: ignore[index]  # a dict
        return lambda message: [one(value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: one(getattr(message, name))


def _reader_of(field: FieldDescriptor) -> Callable[[Any], object]:
    if field.enum_type is not None:
        names = {each.number: each.name for each in reversed(field.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    if field.message_type is None:
        return lambda value: value
    name = str(field.message_type.full_name)
    if name in LOGICAL_MESSAGES:
        return _LOGICAL_READERS[name]
    if name == DECIMAL_MESSAGE:
        return _decimal
    if name.startswith("google.protobuf.") and name.endswith("Value") and name != "google.protobuf.Value":
        return lambda message: message.value
    return _message_reader(field.message_type)


def _decimal(message: Any) -> Decimal:
    return decimal_from_bytes(message.value, message.scale)


_LOGICAL_READERS: dict[str, Callable[[Any], object]] = {
    "google.protobuf.Timestamp": lambda message: message.ToDatetime(dt.UTC),
    "google.type.Date": lambda message: dt.date(message.year, message.month, message.day),
    "google.type.TimeOfDay": lambda message: dt.time(
        message.hours % 24, message.minutes, message.seconds, message.nanos // _NANOS_PER_MICRO
    ),
}
