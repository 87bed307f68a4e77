"""Serdes of keys and values of SQL columns, in any format.

A value is a dict of all value columns. A key is None without key columns, the column's value where there is one, a dict
of the columns where there are several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hayase.core.errors import ConfigError, HayaseError, SerializationError
from hayase.serde.faults import is_fault, said, shown
from hayase.serde.protocol import ColumnCodec, Serde, Side
from hayase.serde.registry import SchemaRegistry
from hayase.sql.formats.avro_codec import AvroRowsCodec
from hayase.sql.formats.avro_format import AvroPayload
from hayase.sql.formats.columns import Column
from hayase.sql.formats.delimited_format import DelimitedPayload
from hayase.sql.formats.delimited_text import delimiter_of
from hayase.sql.formats.format_info import DELIMITER, FormatInfo
from hayase.sql.formats.json_columns import JsonRowsCodec
from hayase.sql.formats.json_format import JsonPayload
from hayase.sql.formats.json_schema_format import JsonSchemaPayload
from hayase.sql.formats.kafka_format import KafkaPayload
from hayase.sql.formats.packing import packed_forms
from hayase.sql.formats.payload import NoColumns, PayloadCodec
from hayase.sql.formats.protobuf_format import PlainProtobufPayload, ProtobufPayload
from hayase.sql.formats.row_columns import RowByRowCodec, column_schema, key_column_schema
from hayase.sql.formats.support import FORMATS


def key_serde(
    format_: FormatInfo, columns: Sequence[Column], *, topic: str = "", registry: SchemaRegistry | None = None
) -> Serde[Any]:
    """The serde of keys.

    Args:
        format_: format and properties.
        columns: the key columns.
        topic: where the keys are; its name makes the subject of a schema registry.
        registry: the schema registry; only AVRO, JSON_SR and PROTOBUF need one.
    """
    return RowSerde(format_, columns, "key", topic=topic, registry=registry)


def value_serde(
    format_: FormatInfo, columns: Sequence[Column], *, topic: str = "", registry: SchemaRegistry | None = None
) -> Serde[dict[str, Any]]:
    """The serde of values; arguments as for `key_serde`."""
    return RowSerde(format_, columns, "value", topic=topic, registry=registry)


def wraps_single(format_: FormatInfo, side: Side) -> bool:
    """Whether an only column is written as a field of a record: as the format says, else as it was asked for.

    Without a wish, keys are bare and values are wrapped.
    """
    support = FORMATS[format_.name]
    if support.wrap != support.unwrap:
        return support.wrap
    return side == "value" if format_.wrap is None else format_.wrap


class RowSerde(Serde[Any]):
    """Keys or values of columns.

    Args:
        format_: format and properties.
        columns: the columns, in the order in which they are written.
        side: keys or values.
        topic: of the records.
        registry: the schema registry.
    """

    def __init__(
        self, format_: FormatInfo, columns: Sequence[Column], side: Side, *, topic: str, registry: SchemaRegistry | None
    ) -> None:
        self._parts = (format_, tuple(columns), side, topic, registry)
        self._prepare()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_row_serde, self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSerde) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts[:4])

    def _prepare(self) -> None:
        format_, columns, side, topic, registry = self._parts
        bare_bytes = len(columns) == 1 and not wraps_single(format_, side)
        self._bare_row = side == "key" and len(columns) == 1
        self._unpacks = bare_bytes and not self._bare_row  # a dict of one column, whose value alone is written
        self._packs = self._bare_row and not bare_bytes  # a bare key, written as a record of one field
        self._only = columns[0].name if columns else ""
        self._payload = _payload(format_, columns, side, topic, registry, bare=bare_bytes)

    def serialize(self, value: Any) -> bytes | None:
        """The bytes of a value; `None` also for an only column that is null and bare.

        Raises:
            SerializationError: the value does not fit the columns.
        """
        return None if value is None else self.to_bytes(value)

    def to_bytes(self, value: Any) -> Any:
        """See `serialize`."""
        try:
            if self._unpacks:
                content = value[self._only]
                return None if content is None else self._payload.write(content)
            return self._payload.write({self._only: value} if self._packs else value)
        except Exception as error:
            raise self._failed(error, "serialize", shown(value)) from error

    def from_bytes(self, data: bytes) -> Any:
        """The value; `None` where the bytes say null; raises SerializationError."""
        try:
            content = self._payload.read(data)
        except Exception as error:
            raise self._failed(error, "deserialize", f"{len(data)} bytes {data[:60]!r}") from error
        if self._unpacks:
            return {self._only: content}
        return content if content is None or not self._packs else content[self._only]

    @property
    def columns(self) -> ColumnCodec | None:
        """The column form; `None` where a name, or the type of a key, has none."""
        _, columns, side, _, _ = self._parts
        if isinstance(self._payload, KafkaPayload) and side == "key":
            return self._payload.columns
        schema = key_column_schema(columns) if side == "key" else column_schema(columns)
        if schema is None:
            return None
        if side == "value" and not self._unpacks:
            if isinstance(self._payload, JsonPayload):
                return JsonRowsCodec(self, self._payload, columns, schema)
            if isinstance(self._payload, AvroPayload) and self._payload.has_columns and not packed_forms(columns):
                return AvroRowsCodec(self, self._payload, schema)
        return RowByRowCodec(self, schema, packed_forms(columns))

    @property
    def definition(self) -> str:
        """Format, topic and columns."""
        format_, columns, side, topic, _ = self._parts
        return f"{format_} {side} {topic} " + ", ".join(f"{column.name} {column.type}" for column in columns)

    def _failed(self, error: Exception, verb: str, given: str) -> HayaseError:
        if isinstance(error, HayaseError) and not is_fault(error):
            return error
        format_, columns, side, topic, _ = self._parts
        of_topic = f" of topic {topic}" if topic else ""
        names = ", ".join(f"{column.name} {column.type}" for column in columns)
        return SerializationError(
            f"VALUE_NOT_{verb.upper().removesuffix('E')}ABLE",
            f"Unable to {verb} record: the {format_.name} {side}{of_topic} has the columns ({names}); it was given "
            f"{given}: {said(error)}",
        )


def _row_serde(
    format_: FormatInfo, columns: Sequence[Column], side: Side, topic: str, registry: SchemaRegistry | None
) -> RowSerde:
    return RowSerde(format_, columns, side, topic=topic, registry=registry)


def _needed(format_: FormatInfo, registry: SchemaRegistry | None) -> SchemaRegistry:
    if registry is None:
        raise ConfigError(
            "MISSING_SETTING",
            f"the format {format_.name} needs a schema registry; set ksql.schema.registry.url",
            setting="schema.registry.url",
        )
    return registry


def _payload(
    format_: FormatInfo,
    columns: Sequence[Column],
    side: Side,
    topic: str,
    registry: SchemaRegistry | None,
    *,
    bare: bool,
) -> PayloadCodec:
    match format_.name:
        case "JSON" if columns or side == "value":
            return JsonPayload(columns, bare=bare)
        case "KAFKA" if columns:
            return KafkaPayload(columns[0])
        case "DELIMITED" if columns:
            return DelimitedPayload(columns, delimiter_of(format_.property(DELIMITER)), bare=bare)
        case "AVRO" if columns or side == "value":
            known = _needed(format_, registry)
            return AvroPayload(format_, columns, bare=bare, side=side, topic=topic, registry=known)
        case "JSON_SR" if columns or side == "value":
            known = _needed(format_, registry)
            return JsonSchemaPayload(format_, columns, bare=bare, side=side, topic=topic, registry=known)
        case "PROTOBUF" if columns or side == "value":
            known = _needed(format_, registry)
            return ProtobufPayload(format_, columns, side=side, topic=topic, registry=known)
        case "PROTOBUF_NOSR" if columns or side == "value":
            return PlainProtobufPayload(format_, columns)
        case "NONE":
            return NoColumns()
        case _ if not columns:
            return NoColumns()
    raise AssertionError(f"the format {format_.name} has no payload")
