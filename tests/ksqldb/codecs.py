"""Records of cases as bytes and back.

They are written and read here by the formats' own rules where that is simple, so that a serde that is wrong in both
directions does not pass: JSON as it stands, DELIMITED as text, KAFKA's numbers by `struct`, Avro by fastavro.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from io import BytesIO
from typing import Any

import fastavro
from tests.ksqldb.protobuf_codec import protobuf_bytes
from tests.ksqldb.protobuf_reading import protobuf_value

from hayase.core.errors import SchemaRegistryError
from hayase.serde.registry import SchemaRegistry
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FULL_SCHEMA_NAME, FormatInfo
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.types import sql_types as sql

_PACKED = {sql.IntegerType: ">i", sql.BigintType: ">q", sql.DoubleType: ">d"}
_BY_NUMBER = {"date", "time-millis", "timestamp-millis"}


class SideCodec:
    """Keys or values of one topic.

    Args:
        format_: the format of that side.
        columns: of that side.
        side: `key` or `value`.
        topic: the topic.
        registry: where the schemas of the case are.
    """

    def __init__(
        self, format_: FormatInfo, columns: Sequence[Column], side: str, topic: str, registry: SchemaRegistry
    ) -> None:
        self._format = format_.name
        self._message = format_.property(FULL_SCHEMA_NAME)
        self._columns = columns
        self._subject = f"{topic}-{side}"
        self._registry = registry
        self._types = {column.name: column.type for column in columns}
        make = key_serde if side == "key" else value_serde
        self._serde = None
        if format_.name not in {"NONE", "JSON", "DELIMITED", "KAFKA"}:
            self._serde = make(format_, columns, topic=topic, registry=registry)
        self._is_key = side == "key"

    def encode(self, value: Any) -> bytes | None:
        """The bytes of a value of a case."""
        if value is None or self._format == "NONE":
            return None
        match self._format:
            case "JSON":
                return json_text(value).encode()
            case "DELIMITED":
                return str(value).encode()
            case "KAFKA":
                return self._kafka_bytes(value)
        schema = self._registered()
        if schema is not None and self._format == "AVRO":
            return _framed(schema.id) + avro_bytes(value, schema.schema.text)
        if schema is not None and self._format == "JSON_SR":
            return _framed(schema.id) + json_text(value).encode()
        if schema is not None and self._format == "PROTOBUF":
            return protobuf_bytes(value, self._subject, self._registry, self._message)
        assert self._serde is not None
        data: bytes | None = self._serde.to_bytes(self._row(value))  # a record of nulls is a record
        return data

    def decode(self, data: bytes | None) -> Any:
        """What a record of the sink has, as a case writes it."""
        if data is None:
            return None
        match self._format:
            case "NONE":
                return None
            case "JSON":
                return self._typed(json.loads(data, parse_float=Decimal))
            case "JSON_SR":
                return self._typed(json.loads(data[5:], parse_float=Decimal))
            case "DELIMITED":
                return data.decode()
            case "KAFKA":
                return self._kafka_value(data)
            case "AVRO":
                (schema_id,) = struct.unpack(">I", data[1:5])
                return self._with_maps(avro_value(data[5:], self._registry.schema(schema_id).text))
        if self._format == "PROTOBUF":
            return self._with_maps(protobuf_value(data, self._registry))
        assert self._serde is not None
        row = self._serde.deserialize(data)
        return {self._columns[0].name: row} if self._is_key and len(self._columns) == 1 else row

    def _with_maps(self, value: Any) -> Any:
        """Avro's lists of entries as the maps that they are."""
        if isinstance(value, dict) and self._is_wrapped(value):
            return {name: _maps(item, self._types.get(name)) for name, item in value.items()}
        return _maps(value, self._columns[0].type) if len(self._columns) == 1 else value

    def _is_wrapped(self, value: Mapping[str, Any]) -> bool:
        return any(name in self._types for name in value)

    def _registered(self) -> Any:
        try:
            return self._registry.latest(self._subject)
        except SchemaRegistryError:
            return None

    def _kafka_bytes(self, value: Any) -> bytes:
        if not self._columns:
            return str(value).encode()
        packed = _PACKED.get(type(self._columns[0].type))
        number = float(value) if packed == ">d" else value
        return str(value).encode() if packed is None else struct.pack(packed, number)

    def _kafka_value(self, data: bytes) -> Any:
        if not self._columns:
            return data.decode()
        packed = _PACKED.get(type(self._columns[0].type))
        return data.decode() if packed is None else struct.unpack(packed, data)[0]

    def _row(self, value: Any) -> Any:
        """A value of a case as the serde of the columns takes it."""
        if len(self._columns) == 1 and not (isinstance(value, Mapping) and self._is_row(value)):
            row = row_value(value, self._columns[0].type)
            return row if self._is_key else {self._columns[0].name: row}
        by_name = {name.upper(): item for name, item in value.items()} | dict(value)
        row = {
            column.name: row_value(by_name.get(column.name, by_name.get(column.name.upper())), column.type)
            for column in self._columns
        }
        return row[self._columns[0].name] if self._is_key and len(row) == 1 else row

    def _is_row(self, value: Mapping[str, Any]) -> bool:
        name = self._columns[0].name
        return any(each in (name, name.lower()) or each.upper() == name.upper() for each in value)

    def _typed(self, value: Any) -> Any:
        """What JSON says, with the columns of DOUBLE as doubles."""
        if isinstance(value, dict) and self._is_wrapped(value):
            return {name: _double(item, self._types.get(name)) for name, item in value.items()}
        return _double(value, self._columns[0].type) if len(self._columns) == 1 else value


def _framed(schema_id: int) -> bytes:
    return struct.pack(">bI", 0, schema_id)


def _double(value: Any, type_: sql.SqlType | None) -> Any:
    if value is None or type_ is None:
        return value
    match type_:
        case sql.DoubleType():
            return value if isinstance(value, str) else float(value)
        case sql.ArrayType(item) if isinstance(value, list):
            return [_double(each, item) for each in value]
        case sql.MapType(_, item) if isinstance(value, dict):
            return {name: _double(each, item) for name, each in value.items()}
        case sql.StructType(fields) if isinstance(value, dict):
            types = dict(fields)
            return {name: _double(each, types.get(name)) for name, each in value.items()}
    return value


def json_text(value: Any) -> str:
    """JSON with the numbers as they were written."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def row_value(value: Any, type_: sql.SqlType) -> Any:
    """A value of a case as a value of rows."""
    if value is None:
        return None
    match type_:
        case sql.BytesType():
            return base64.b64decode(value)
        case sql.DecimalType(_, scale):
            return _scaled(value, scale)
        case sql.DoubleType():
            return float(value)
        case sql.IntegerType() | sql.BigintType() | sql.DateType() | sql.TimeType() | sql.TimestampType():
            return int(value)
        case sql.StringType():
            return value if isinstance(value, str) else json_text(value)
        case sql.ArrayType(item):
            return [row_value(each, item) for each in value]
        case sql.MapType(key, item):
            return {row_value(name, key): row_value(each, item) for name, each in value.items()}
        case sql.StructType(fields):
            by_name = {name.upper(): each for name, each in value.items()} | dict(value)
            return {name: row_value(by_name.get(name, by_name.get(name.upper())), each) for name, each in fields}
    return value


def _scaled(value: Any, scale: int) -> Decimal:
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=200))


def avro_bytes(value: Any, schema: str) -> bytes:
    """A value of a case, encoded by a schema."""
    parsed = _avro_schema(schema)
    names: dict[str, Any] = {}
    parsed = fastavro.parse_schema(parsed, names)
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, parsed, _avro_datum(value, parsed, names))
    return buffer.getvalue()


def avro_value(data: bytes, schema: str) -> Any:
    """What bytes say by their schema, as a case writes it."""
    parsed = fastavro.parse_schema(_avro_schema(schema))
    return fastavro.schemaless_reader(BytesIO(data), parsed, None)


def _avro_schema(text: str) -> Any:
    def numbers(node: Any) -> Any:
        if isinstance(node, list):
            return [numbers(each) for each in node]
        if isinstance(node, dict):
            kept = {name: numbers(part) for name, part in node.items() if name not in {"default"}}
            if kept.get("logicalType") in _BY_NUMBER:
                del kept["logicalType"]
            return kept
        return node

    return numbers(json.loads(text))


def _avro_datum(value: Any, schema: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        if value is None:
            return None
        return _avro_datum(value, next(each for each in schema if each != "null"), names)
    if isinstance(schema, str):
        return _avro_datum(value, names[schema], names) if schema in names else _avro_plain(value, schema)
    match schema["type"]:
        case "record":
            by_name = {name.upper(): item for name, item in value.items()}
            fields = schema["fields"]
            return {
                each["name"]: _avro_datum(by_name.get(each["name"].upper()), each["type"], names) for each in fields
            }
        case "array" if isinstance(value, Mapping):
            return [_avro_datum({"key": key, "value": item}, schema["items"], names) for key, item in value.items()]
        case "array":
            return [_avro_datum(item, schema["items"], names) for item in value]
        case "map":
            return {name: _avro_datum(item, schema["values"], names) for name, item in value.items()}
        case "bytes" if schema.get("logicalType") == "decimal":
            return None if value is None else _scaled(value, schema.get("scale", 0))
        case "enum" | "fixed":
            return value
    return _avro_datum(value, schema["type"], names)


def _avro_plain(value: Any, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "int" | "long":
            return int(value)
        case "float" | "double":
            return float(value)
        case "bytes":
            return base64.b64decode(value)
        case "string":
            return value if isinstance(value, str) else json_text(value)
    return value


def _maps(value: Any, type_: sql.SqlType | None) -> Any:
    if value is None or type_ is None:
        return value
    match type_:
        case sql.MapType(_, item):
            pairs = value.items() if isinstance(value, dict) else ((each["key"], each["value"]) for each in value)
            return {str(key): _maps(each, item) for key, each in pairs}
        case sql.ArrayType(item):
            return [_maps(each, item) for each in value]
        case sql.StructType(fields):
            types = dict(fields)
            return {name: _maps(each, types.get(name)) for name, each in value.items()}
    return value
