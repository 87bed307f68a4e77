"""SQL types of JSON Schemas, with what Kafka Connect's converter notes in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hayase.core.errors import ConfigError
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.sql.types import sql_types as sql

_CONNECT: dict[str, sql.SqlType] = {
    "int8": sql.INTEGER,
    "int16": sql.INTEGER,
    "int32": sql.INTEGER,
    "int64": sql.BIGINT,
    "float32": sql.DOUBLE,
    "float64": sql.DOUBLE,
    "boolean": sql.BOOLEAN,
    "string": sql.STRING,
    "bytes": sql.BYTES,
}
_PRIMITIVES: dict[str, sql.SqlType] = {
    "boolean": sql.BOOLEAN,
    "integer": sql.BIGINT,
    "number": sql.DOUBLE,
    "string": sql.STRING,
}
_TITLES: dict[str, sql.SqlType] = {
    "org.apache.kafka.connect.data.Date": sql.DATE,
    "org.apache.kafka.connect.data.Time": sql.TIME,
    "org.apache.kafka.connect.data.Timestamp": sql.TIMESTAMP,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DECIMAL_PRECISION = 64  # of ksqlDB, where the schema says none
_DEEPEST = 50


def sql_type(schema: RegistrySchema, registry: SchemaRegistry) -> sql.SqlType | None:
    """The type of a schema of a registry; `None` if SQL has none. Fields without a type in SQL are left out.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
        SchemaRegistryError: the registry does not have, or does not answer for, what the schema refers to.
    """
    documents: dict[str, Any] = {}
    pending = list(schema.references)
    while pending:
        reference = pending.pop()
        if reference.name not in documents:
            used = registry.version(reference.subject, reference.version).schema
            documents[reference.name] = _parsed(used.text)
            pending += used.references
    root = _parsed(schema.text)
    return _Types(root, documents).type(root, 0)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("INVALID_SCHEMA", f"the JSON Schema is no JSON: {error}; it is {text[:200]!r}") from error


class _Types:
    def __init__(self, root: Any, documents: Mapping[str, Any]) -> None:
        self._root, self._documents = root, documents

    def type(self, schema: Any, depth: int) -> sql.SqlType | None:
        """The type of a part of the document; `None`: SQL has none, or it holds itself."""
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return None
        if "$ref" in schema:
            return self._referred(schema["$ref"], depth)
        for union in ("oneOf", "anyOf"):
            if union in schema:
                branches = [each for each in schema[union] if each != {"type": "null"}]
                return self.type(branches[0], depth + 1) if len(branches) == 1 else None
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            return self.type({**schema, "type": kinds[0]}, depth + 1) if len(kinds) == 1 else None
        title, noted = schema.get("title"), schema.get("connect.type")
        if title == _DECIMAL:
            return _decimal(schema)
        if title in _TITLES:
            return _TITLES[title]
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, noted, depth)
        if kind == "array":
            return self._array(schema, noted, depth)
        if "enum" in schema and kind is None:
            return sql.STRING
        return _CONNECT.get(str(noted)) or _PRIMITIVES.get(str(kind))

    def _referred(self, target: str, depth: int) -> sql.SqlType | None:
        document, _, path = str(target).partition("#")
        part: Any = self._documents.get(document) if document else self._root
        for name in filter(None, path.split("/")):
            part = part.get(name) if isinstance(part, dict) else None
        return self.type(part, depth + 1)

    def _object(self, schema: dict[str, Any], noted: object, depth: int) -> sql.SqlType | None:
        if "properties" not in schema or noted == "map":
            value = self.type(schema.get("additionalProperties"), depth + 1)
            return None if value is None else sql.MapType(sql.STRING, value)
        properties = sorted(_as_java_has_them(schema["properties"]), key=lambda each: _index(each[1]))
        fields = ((name, self.type(part, depth + 1)) for name, part in properties)
        return sql.StructType(tuple((name, each) for name, each in fields if each is not None))

    def _array(self, schema: dict[str, Any], noted: object, depth: int) -> sql.SqlType | None:
        item = self.type(schema.get("items"), depth + 1)
        if noted == "map":
            types = dict(item.fields) if isinstance(item, sql.StructType) else {}
            return sql.MapType(types["key"], types["value"]) if types.keys() == {"key", "value"} else None
        return None if item is None else sql.ArrayType(item)


def _as_java_has_them(properties: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The properties in the order of Java's hash map, in which ksqlDB has them where the schema notes no order."""
    buckets = 16
    while len(properties) > buckets * 3 // 4:
        buckets *= 2
    return sorted(properties.items(), key=lambda each: _java_hash(each[0]) % buckets)


def _java_hash(name: str) -> int:
    """`String.hashCode`, its halves mixed as `HashMap` does."""
    units = name.encode("utf-16-be", "surrogatepass")
    number = 0
    for at in range(0, len(units), 2):
        number = (31 * number + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return number ^ (number >> 16)


def _index(part: Any) -> float:
    return float(part.get("connect.index", "inf")) if isinstance(part, dict) else float("inf")


def _decimal(schema: dict[str, Any]) -> sql.SqlType:
    parameters = schema.get("connect.parameters", {})
    scale = int(parameters.get("scale", 0))
    return sql.DecimalType(int(parameters.get("connect.decimal.precision", _DECIMAL_PRECISION)), scale)
