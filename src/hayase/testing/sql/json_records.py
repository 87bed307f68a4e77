"""Records as the JSON files of ksql-test-runner write them, as bytes and back."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from hayase.core.errors import ConfigError
from hayase.core.objects import JsonObject
from hayase.serde.protocol import Serde
from hayase.serde.registry import SchemaRegistry
from hayase.sql.ast.queries import WindowKind
from hayase.sql.catalog.sources import DataSource
from hayase.sql.formats.columns import Column
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.types import sql_types as sql
from hayase.testing.topics import RawRecord

_WRAPPED_KEYS = ("PROTOBUF", "PROTOBUF_NOSR")
_WHOLE = (sql.IntegerType, sql.BigintType, sql.DateType, sql.TimeType, sql.TimestampType)


@dataclass(frozen=True, slots=True)
class JsonRecords:
    """Encodes and decodes the records of one topic by the source over it.

    Attributes:
        source: the stream or table.
        registry: of its schemas.
    """

    source: DataSource
    registry: SchemaRegistry

    def encode(self, record: JsonObject) -> RawRecord:
        """A record of a file as bytes.

        Raises:
            ConfigError: `INVALID_RECORD`: it does not fit the columns of the source.
        """
        source = self.source
        try:
            key = self._key_bytes(record.get("key"))
            if key is not None and record.get("window") is not None:
                key += _window_bytes(record["window"])
            value = self._value_bytes(record.get("value"))
        except (TypeError, ValueError, KeyError, AttributeError, InvalidOperation) as error:
            raise ConfigError(
                "INVALID_RECORD", f"{json.dumps(record, default=str)} is no record of {source.name}: {error}"
            ) from error
        return RawRecord(source.topic, key, value, int(record.get("timestamp") or 0))

    def decode(self, record: RawRecord) -> JsonObject:
        """A record as a file writes it."""
        key, window = record.key, None
        if key is not None and self.source.window is not None:
            key, window = _unwindowed(key, self.source)
        decoded = {"key": self._key(key), "value": self._value(record.value), "timestamp": record.timestamp_ms}
        return decoded if window is None else {**decoded, "window": window}

    def _key_bytes(self, key: Any) -> bytes | None:
        columns, name = self.source.key, self.source.key_format.name
        if key is None or not columns:
            return None
        if (text := _plain(key, name)) is not None:
            return text
        if len(columns) > 1 or name in _WRAPPED_KEYS:
            row = _row(key, columns)
            return self._keys().serialize(row if len(columns) > 1 else row[columns[0].name])
        return self._keys().serialize(row_value(key, columns[0].type))

    def _value_bytes(self, value: Any) -> bytes | None:
        columns, format_ = self.source.value, self.source.value_format
        if value is None:
            return None
        if (text := _plain(value, format_.name)) is not None:
            return text
        bare = len(columns) == 1 and not isinstance(value, Mapping)
        return self._values().serialize(_row({columns[0].name: value} if bare else value, columns))

    def _key(self, data: bytes | None) -> Any:
        name = self.source.key_format.name
        if data is None or name in ("DELIMITED", "JSON"):
            return _text(data, name)
        key = self._keys().deserialize(data)
        wrapped = len(self.source.key) == 1 and name in _WRAPPED_KEYS
        return shown_value({self.source.key[0].name: key} if wrapped else key)

    def _value(self, data: bytes | None) -> Any:
        name = self.source.value_format.name
        if data is None or name in ("DELIMITED", "JSON"):
            return _text(data, name)
        row = shown_value(self._values().deserialize(data))
        return next(iter(row.values())) if name == "KAFKA" and row else row

    def _keys(self) -> Serde[Any]:
        return key_serde(self.source.key_format, self.source.key, topic=self.source.topic, registry=self.registry)

    def _values(self) -> Serde[Any]:
        return value_serde(self.source.value_format, self.source.value, topic=self.source.topic, registry=self.registry)


def row_value(value: Any, type_: sql.SqlType) -> Any:
    """A value in JSON as one of rows; raises what does not fit."""
    if value is None:
        return None
    match type_:
        case sql.BytesType():
            return base64.b64decode(value)
        case sql.DecimalType(_, scale):
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=200))
        case sql.DoubleType():
            return float(value)
        case sql.StringType():
            return value if isinstance(value, str) else json.dumps(value, default=str)
        case sql.ArrayType(item):
            return [row_value(each, item) for each in value]
        case sql.MapType(key, item):
            return {row_value(name, key): row_value(each, item) for name, each in value.items()}
        case sql.StructType(fields):
            return _row(value, [Column(name, field) for name, field in fields])
    return int(value) if isinstance(type_, _WHOLE) else value


def shown_value(value: Any) -> Any:
    """A value of rows in JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: shown_value(each) for name, each in value.items()}
    return [shown_value(each) for each in value] if isinstance(value, list) else value


def _row(value: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    by_name = {name.upper(): each for name, each in value.items()} | dict(value)
    return {
        column.name: row_value(by_name.get(column.name, by_name.get(column.name.upper())), column.type)
        for column in columns
    }


def _plain(value: Any, format_name: str) -> bytes | None:
    """What is written as it stands: JSON may be anything, and lines of DELIMITED are text."""
    if format_name == "JSON":
        return json_text(value).encode()
    return str(value).encode() if format_name == "DELIMITED" else None


def json_text(value: Any) -> str:
    """JSON with decimals as they were written."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _text(data: bytes | None, format_name: str) -> Any:
    if data is None:
        return None
    return data.decode() if format_name == "DELIMITED" else json.loads(data, parse_float=Decimal)


def _window_bytes(window: JsonObject) -> bytes:
    if str(window["type"]).lower() == "session":
        return struct.pack(">qq", window["end"], window["start"])
    return struct.pack(">q", window["start"])


def _unwindowed(key: bytes, source: DataSource) -> tuple[bytes, JsonObject]:
    assert source.window is not None
    if source.window.kind is WindowKind.SESSION:
        end, start = struct.unpack(">qq", key[-16:])
        return key[:-16], {"start": start, "end": end, "type": "session"}
    (start,) = struct.unpack(">q", key[-8:])
    return key[:-8], {"start": start, "end": start + (source.window.size_ms or 0), "type": "time"}
