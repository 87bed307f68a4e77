"""Protobuf messages as dicts and as columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import polars as pl

from hayase.core.objects import FieldValues
from hayase.serde.limits import COLUMN_DEPTH_MAX, COLUMNS_MAX
from hayase.serde.protobuf_schema import package, read_indexes
from hayase.serde.protocol import Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from google.protobuf.message import Message

Convert = Callable[[Any], Any]
"""A value of one side to a value of the other; raises TypeError, ValueError or OverflowError."""

_WRAPPERS = "Double Float Int64 UInt64 Int32 UInt32 Bool String Bytes"
_WRAPPED = {f"google.protobuf.{kind}Value" for kind in _WRAPPERS.split()}
_JSON = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"

_DURATION_MAX_S = 315_576_000_000  # of the type itself: 10,000 years


class NoColumnFormError(Exception):
    """The message has no column form; the text says what of it."""


class MessageForm:
    """How messages of one type become dicts and back.

    Args:
        descriptor: the type.

    Attributes:
        name: its full name.
        columns: its fields and their types; `None` if it exists in rows only.
        no_columns: why, if so.
    """

    def __init__(self, descriptor: Descriptor, known: dict[str, MessageForm] | None = None) -> None:
        known = {} if known is None else known
        known[descriptor.full_name] = self
        self.name = str(descriptor.full_name)
        self._new: type[Message] = package("google.protobuf.message_factory").GetMessageClass(descriptor)
        self._readers: dict[str, Convert] = {each.name: _reader(each, known) for each in descriptor.fields}
        self._writers: dict[str, Convert] = {each.name: _writer(each, known) for each in descriptor.fields}
        errors = package("google.protobuf.message")
        self._decode_error, self._encode_error = errors.DecodeError, errors.EncodeError
        self._check = _has_required(descriptor, set())
        self.columns: Schema | None = None
        self.no_columns = ""
        try:
            self.columns = Schema(tuple(_ColumnTypes().of(descriptor)), python_type=dict)
        except NoColumnFormError as error:
            self.no_columns = str(error)

    def parse(self, payload: bytes) -> Message:
        """The message of the bytes behind a record's head, its indexes skipped; raises ValueError."""
        start = 1 if payload[:1] == b"\0" else read_indexes(payload, 0)[1]
        try:
            message = self._new.FromString(payload[start:])
        except self._decode_error as error:
            raise ValueError(str(error)) from error
        if self._check and not message.IsInitialized():
            raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        return message

    def value(self, message: Message) -> FieldValues:
        """The dict of a message; raises ValueError or OverflowError for a time that Python does not have."""
        return {name: read(message) for name, read in self._readers.items()}

    def message(self, value: object) -> Message:
        """The message of a dict; raises TypeError or ValueError for what does not fit."""
        if not isinstance(value, Mapping):
            raise TypeError(f"a dict is expected, not {value!r:.80}")
        fields = {}
        for name, given in value.items():
            if name not in self._writers:
                raise ValueError(f"there is no field {name!r}; there are {', '.join(self._writers) or 'none'}")
            if given is not None:
                try:
                    fields[name] = self._writers[name](given)
                except (TypeError, ValueError, OverflowError) as error:
                    raise ValueError(f"{name}: {error}") from error
        return self._new(**fields)

    def serialize(self, message: Message) -> bytes:
        """The bytes of a message; raises ValueError where a required field is missing."""
        try:
            serialized: bytes = message.SerializeToString(deterministic=True)  # maps in one order: a key has one form
        except self._encode_error as error:
            raise ValueError(str(error)) from error
        return serialized

    def frame(self, messages: Sequence[Message | None], fields: Iterable[tuple[str, pl.DataType]]) -> pl.DataFrame:
        """Columns of messages, some of `columns`; null where there is none. Raises as `value`, and Polars' errors."""
        some_null = None in messages
        columns = []
        for name, dtype in fields:
            read = self._readers[name]
            values = (
                [None if each is None else read(each) for each in messages] if some_null else list(map(read, messages))
            )
            columns.append(pl.Series(name, values, dtype, strict=True))
        return pl.DataFrame(columns or None, height=len(messages))


def _entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """Key and value of a field that is a map."""
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return None
    return kind.fields_by_name["key"], kind.fields_by_name["value"]


def _reader(field: FieldDescriptor, known: dict[str, MessageForm]) -> Convert:
    """A message to the value of one of its fields."""
    name, get = field.name, attrgetter(field.name)
    if (entry := _entry(field)) is not None:
        of_value = _from_message(entry[1], known)
        if of_value is None:
            return lambda message: dict(get(message))
        return lambda message: {key: of_value(value) for key, value in get(message).items()}
    convert = _from_message(field, known)
    if field.is_repeated:
        if convert is None:
            return lambda message: list(get(message))
        return lambda message: list(map(convert, get(message)))
    if not field.has_presence or field.has_default_value:
        return get if convert is None else (lambda message: convert(get(message)))
    if convert is None:
        return lambda message: get(message) if message.HasField(name) else None
    return lambda message: convert(get(message)) if message.HasField(name) else None


def _from_message(field: FieldDescriptor, known: dict[str, MessageForm]) -> Convert | None:
    """What Google's package holds for one value, as ours; `None`: as it is."""
    if field.enum_type is not None:
        names = {each.number: each.name for each in reversed(field.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    if field.message_type is None:
        return None
    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return lambda message: message.ToDatetime(dt.UTC)
        case "google.protobuf.Duration":
            return lambda message: _within(message).ToTimedelta()
        case name if name in _WRAPPED:
            return attrgetter("value")
        case name if name in _JSON:
            convert: Convert = package("google.protobuf.json_format").MessageToDict
            return convert
    return _form(field.message_type, known).value


def _writer(field: FieldDescriptor, known: dict[str, MessageForm]) -> Convert:
    """One of our values, not null, to what Google's package takes for a field."""
    if (entry := _entry(field)) is not None:
        write = _to_message(entry[1], known)
        return lambda value: {key: write(each) for key, each in _as(Mapping, value, "a dict").items()}
    write = _to_message(field, known)
    if field.is_repeated:
        return lambda value: [write(each) for each in _as((list, tuple), value, "a list")]
    return write


def _to_message(field: FieldDescriptor, known: dict[str, MessageForm]) -> Convert:
    if field.enum_type is not None:
        return _enum_writer(field.enum_type)
    if field.message_type is None:
        return lambda value: value
    message_class: type[Message] = package("google.protobuf.message_factory").GetMessageClass(field.message_type)
    match field.message_type.full_name:
        case "google.protobuf.Timestamp":
            return lambda value: _timestamp(message_class(), value)
        case "google.protobuf.Duration":
            return lambda value: _within(
                _filled(message_class(), "FromTimedelta", _as(dt.timedelta, value, "a timedelta"))
            )
        case name if name in _WRAPPED:
            return lambda value: message_class(value=value)
        case name if name in _JSON:
            return lambda value: _from_json(message_class(), value)
    return _form(field.message_type, known).message


def _form(descriptor: Descriptor, known: dict[str, MessageForm]) -> MessageForm:
    return known.get(descriptor.full_name) or MessageForm(descriptor, known)


def _enum_writer(kind: EnumDescriptor) -> Convert:
    numbers: dict[str, int] = {name: each.number for name, each in kind.values_by_name.items()}

    def write(value: Any) -> int:
        if isinstance(value, int):
            return value
        if value in numbers:
            return numbers[value]
        try:
            return int(value)  # a value that was not known when it was read
        except (TypeError, ValueError):
            raise ValueError(f"{value!r} is none of {', '.join(numbers)}") from None

    return write


def _timestamp(message: Message, value: object) -> Message:
    if not isinstance(value, dt.datetime) or value.tzinfo is None:
        raise TypeError(f"a datetime with a time zone is expected, not {value!r}")
    return _filled(message, "FromDatetime", value)


def _filled(message: Message, method: str, value: object) -> Message:
    getattr(message, method)(value)
    return message


def _within(duration: Any) -> Any:
    if abs(duration.seconds) > _DURATION_MAX_S:
        raise ValueError(f"a Duration has at most {_DURATION_MAX_S} seconds, not {duration.seconds}")
    return duration


def _from_json(message: Message, value: object) -> Message:
    json_format = package("google.protobuf.json_format")
    try:
        filled: Message = json_format.ParseDict(value, message)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error
    return filled


def _as(kind: Any, value: Any, expected: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{expected} is expected, not {value!r:.80}")
    return value


def _has_required(descriptor: Descriptor, seen: set[str]) -> bool:
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return any(
        each.is_required or (each.message_type is not None and _has_required(each.message_type, seen))
        for each in descriptor.fields
    )


class _ColumnTypes:
    """The column types of a message, and of those inside of it."""

    def __init__(self) -> None:
        self._outer: list[str] = []
        self._count = 0

    def of(self, descriptor: Descriptor) -> list[tuple[str, pl.DataType]]:
        """Name and type of each field; raises NoColumnFormError."""
        name = descriptor.full_name
        if name in self._outer:
            raise NoColumnFormError(f"{name} holds itself")
        if not descriptor.fields:
            raise NoColumnFormError(f"{name} has no fields")
        if any(each.name.startswith("__") for each in descriptor.fields):
            raise NoColumnFormError(f"{name} has a field whose name begins with __")
        self._count += len(descriptor.fields)
        if self._count > COLUMNS_MAX or len(self._outer) > COLUMN_DEPTH_MAX:
            raise NoColumnFormError(f"more than {COLUMNS_MAX} types, or nested more than {COLUMN_DEPTH_MAX} deep")
        self._outer.append(name)
        columns = [(each.name, self._field(each)) for each in descriptor.fields]
        self._outer.pop()
        return columns

    def _field(self, field: FieldDescriptor) -> pl.DataType:
        if (entry := _entry(field)) is not None:
            key, value = entry
            return pl.Map(self._type(key), self._type(value))
        inner = self._type(field)
        return pl.List(inner) if field.is_repeated else inner

    def _type(self, field: FieldDescriptor) -> pl.DataType:
        if field.enum_type is not None:
            return pl.String()
        if field.message_type is None:
            return _scalars()[field.type]
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return pl.Datetime("us", "UTC")
        if name == _DURATION:
            return pl.Duration("us")
        if name in _WRAPPED:
            return self._type(field.message_type.fields_by_name["value"])
        if name in _JSON:
            raise NoColumnFormError(f"{field.full_name} is any JSON")
        return pl.Struct([pl.Field(*each) for each in self.of(field.message_type)])


def _scalars() -> dict[int, pl.DataType]:
    kinds = package("google.protobuf.descriptor").FieldDescriptor
    int32, int64 = pl.Int32(), pl.Int64()
    return {
        **dict.fromkeys((kinds.TYPE_INT32, kinds.TYPE_SINT32, kinds.TYPE_SFIXED32), int32),
        **dict.fromkeys((kinds.TYPE_INT64, kinds.TYPE_SINT64, kinds.TYPE_SFIXED64), int64),
        **dict.fromkeys((kinds.TYPE_UINT32, kinds.TYPE_FIXED32), pl.UInt32()),
        **dict.fromkeys((kinds.TYPE_UINT64, kinds.TYPE_FIXED64), pl.UInt64()),
        kinds.TYPE_FLOAT: pl.Float32(),
        kinds.TYPE_DOUBLE: pl.Float64(),
        kinds.TYPE_BOOL: pl.Boolean(),
        kinds.TYPE_STRING: pl.String(),
        kinds.TYPE_BYTES: pl.Binary(),
    }
