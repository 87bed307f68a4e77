"""Avro schemas: parsed, with their column types, and what of them can be decoded by the fast decoder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from hayase.core.errors import ConfigError, HayaseError, MissingRequirementError
from hayase.core.objects import JsonObject
from hayase.serde.avro_limits import AvroType, check_depth, check_size, payload_check
from hayase.serde.limits import COLUMN_DEPTH_MAX, COLUMNS_MAX
from hayase.serde.protocol import BARE_FIELD, Schema

_PRIMITIVES: dict[str, pl.DataType] = {
    "null": pl.Null(),
    "boolean": pl.Boolean(),
    "int": pl.Int32(),
    "long": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "bytes": pl.Binary(),
    "string": pl.String(),
}
_LOGICAL: dict[tuple[str, str], pl.DataType] = {
    ("int", "date"): pl.Date(),
    ("int", "time-millis"): pl.Time(),
    ("long", "time-micros"): pl.Time(),
    ("long", "timestamp-millis"): pl.Datetime("ms", "UTC"),
    ("long", "timestamp-micros"): pl.Datetime("us", "UTC"),
    ("long", "local-timestamp-millis"): pl.Datetime("ms"),
    ("long", "local-timestamp-micros"): pl.Datetime("us"),
}
_DECIMALS = {("bytes", "decimal"), ("fixed", "decimal")}
OverLimit = Callable[[Any], bool]
"""Whether a value of a type, or one inside of it, is beyond what the type holds."""

_MAX_DECIMAL_PRECISION = 38
_INT_LIMIT = 2**31


class NoColumnFormError(Exception):
    """The schema has no column form; the text says what of it."""


class AvroSchema:
    """A parsed schema.

    Logical types other than decimal, date, time-millis, time-micros, (local-)timestamp-millis and -micros are
    read as the type they are written in, so a uuid is its text.

    Args:
        definition: the schema as JSON, references inside replaced by what they refer to.

    Attributes:
        parsed: for fastavro; every name in it is a full name.
        name: the full name of the record, enum or fixed type; else the type's name.
        bare: whether it is no record.
        columns: column types; `None` if it exists in rows only.
        no_columns: why, if so.
        raw_bytes: whether it is plain bytes, whose payload has no length in front.
        physical: the schema for pyruhvro, without logical types and all integers long; `None` if it cannot decode it.
        over_limit: whether a value has an int beyond 32 bits, or a decimal of more digits than its precision, which
            fastavro has rounded then; `None` if the schema has neither.
        check: looks through a payload before it is decoded; `None` if none of the schema needs that.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
    """

    def __init__(self, definition: AvroType) -> None:
        self.parsed = _parse(definition)
        try:
            self._derive()
        except HayaseError:
            raise
        except Exception as error:  # what fastavro passes, such as a decimal without precision or a fixed of -5 bytes
            raise ConfigError("INVALID_SCHEMA", f"not an Avro schema: {type(error).__name__}: {error}") from error

    def _derive(self) -> None:
        self._named: dict[str, JsonObject] = {}
        self._numbers = itertools.count()  # a name may be defined once, and here every mention is a definition
        _collect_names(self.parsed, self._named)
        parsed = self.parsed
        self._record = parsed if isinstance(parsed, dict) and parsed["type"] == "record" else None
        self.bare = self._record is None
        named = self.parsed.get("name", self.parsed["type"]) if isinstance(self.parsed, dict) else self.parsed
        self.name = "union" if isinstance(named, list) else str(named)
        check_size(self.parsed, self._named)
        self.check = payload_check(self.parsed, self._named)
        self.columns: Schema | None = None
        self.no_columns = ""
        self._types = 0  # that columns have so far
        try:
            self.columns = self._schema()
        except NoColumnFormError as error:
            self.no_columns = str(error)
        self.raw_bytes = self.parsed == "bytes"  # Confluent writes these without a length
        self.physical = None if self.raw_bytes or self.columns is None else self._physical()
        self.over_limit: OverLimit | None = None if self.columns is None else self._int_check(self.parsed)

    def fields(self) -> dict[str, JsonObject]:
        """The fields by name; a bare schema has one, `value`."""
        if self._record is None:
            return {BARE_FIELD: {"name": BARE_FIELD, "type": self.parsed}}
        return {field["name"]: field for field in self._record["fields"]}

    def kind(self, schema: AvroType) -> str:
        """The type's name: of a name, what it stands for; a union is `union`."""
        if isinstance(schema, list):
            return "union"
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES else self.kind(self._named[schema])
        return self.kind(schema["type"]) if isinstance(schema["type"], dict | list) else str(schema["type"])

    def definition(self, schema: AvroType) -> JsonObject:
        """A name replaced by what it stands for; primitives as a dict."""
        if isinstance(schema, str):
            return {"type": schema} if schema in _PRIMITIVES else self._named[schema]
        if isinstance(schema, list):
            raise TypeError("a union in a union")
        return schema

    def nullable(self, schema: AvroType) -> tuple[AvroType, bool]:
        """The type without null, and whether null is allowed.

        Raises:
            NoColumnFormError: a union of several types.
        """
        if not isinstance(schema, list):
            return schema, self.kind(schema) == "null"
        others = [branch for branch in schema if self.kind(branch) != "null"]
        if len(others) != 1:
            raise NoColumnFormError(f"a union of {len(others)} types")
        return others[0], len(others) < len(schema)

    def shape(self, schema: AvroType) -> list[object]:
        """What of a type matters for its bytes and its columns; equal shapes decode alike."""
        if isinstance(schema, list):
            return [self.shape(branch) for branch in schema]
        definition = self.definition(schema)
        kind, logical = definition["type"], definition.get("logicalType")
        if kind == "record":
            return [kind, [[field["name"], self.shape(field["type"])] for field in definition["fields"]]]
        parts = [
            kind,
            logical,
            definition.get("precision"),
            definition.get("scale"),
            definition.get("size"),
            definition.get("symbols"),
        ]
        return [*parts, *(self.shape(definition[inner]) for inner in ("items", "values") if inner in definition)]

    def _schema(self) -> Schema:
        if self._record is None:
            if isinstance(self.parsed, list):
                raise NoColumnFormError("a union as the whole value")
            return Schema(((BARE_FIELD, self._dtype(self.parsed, ())),), bare=True)
        for name in self.fields():
            if name.startswith("__"):
                raise NoColumnFormError(f"field {name!r}: names that begin with __ are reserved")
        outer = (self._record["name"],)
        schema_fields = tuple((field["name"], self._dtype(field["type"], outer)) for field in self._record["fields"])
        return Schema(schema_fields, python_type=dict)

    def _dtype(self, schema: AvroType, outer: tuple[str, ...], depth: int = 0) -> pl.DataType:
        self._types += 1
        if self._types > COLUMNS_MAX or depth > COLUMN_DEPTH_MAX:
            raise NoColumnFormError(f"more than {COLUMNS_MAX} types, or nested more than {COLUMN_DEPTH_MAX} deep")
        schema, _ = self.nullable(schema)
        definition = self.definition(schema)
        kind, logical = definition["type"], definition.get("logicalType")
        if logical is not None:
            return self._logical_dtype(definition, kind, logical)
        match kind:
            case "record":
                if definition["name"] in outer:
                    raise NoColumnFormError(f"record {definition['name']} holds itself")
                outer = (*outer, definition["name"])
                return pl.Struct(
                    [pl.Field(f["name"], self._dtype(f["type"], outer, depth + 1)) for f in definition["fields"]]
                )
            case "enum":
                return pl.String()
            case "fixed":
                return pl.Binary()
            case "array":
                return pl.List(self._dtype(definition["items"], outer, depth + 1))
            case "map":
                return pl.Map(pl.String(), self._dtype(definition["values"], outer, depth + 1))
        return _PRIMITIVES[kind]

    def _logical_dtype(self, definition: JsonObject, kind: str, logical: str) -> pl.DataType:
        if logical != "decimal":
            return _LOGICAL[kind, logical]
        if definition["precision"] > _MAX_DECIMAL_PRECISION:
            raise NoColumnFormError(f"a decimal of {definition['precision']} digits")
        return pl.Decimal(definition["precision"], definition.get("scale", 0))

    def _physical(self) -> str | None:
        try:
            types = {name: self._plain(field["type"]) for name, field in self.fields().items()}
        except NoColumnFormError:
            return None
        physical_fields = [{"name": name, "type": kind} for name, kind in types.items()]
        return json.dumps({"type": "record", "name": "Value", "fields": physical_fields}) if physical_fields else None

    def _plain(self, schema: AvroType) -> AvroType:
        if isinstance(schema, list):
            return ["null" if self.kind(branch) == "null" else self._plain(branch) for branch in schema]
        definition = self.definition(schema)
        kind = definition["type"]
        if kind in ("bytes", "fixed", "null") or definition.get("logicalType") in ("time-millis", "time-micros"):
            raise NoColumnFormError(kind)
        if kind == "record":
            if not definition["fields"]:
                raise NoColumnFormError("a record without fields")
            number = next(self._numbers)
            inner = [{"name": f["name"], "type": self._plain(f["type"])} for f in definition["fields"]]
            return {"type": kind, "name": f"Record{number}", "fields": inner}
        if kind == "enum":
            return {"type": kind, "name": f"Enum{next(self._numbers)}", "symbols": definition["symbols"]}
        if kind == "array":
            return {"type": kind, "items": self._plain(definition["items"])}
        if kind == "map":
            return {"type": kind, "values": self._plain(definition["values"])}
        return "long" if kind == "int" else kind

    def _int_check(self, schema: AvroType) -> OverLimit | None:
        """Says whether an int or a decimal somewhere in a value is beyond its type.

        Fastavro reads more than that holds.
        """
        schema, _ = self.nullable(schema)
        definition = self.definition(schema)
        kind = definition["type"]
        if kind == "int" and "logicalType" not in definition:
            return lambda value: value is not None and not -_INT_LIMIT <= value < _INT_LIMIT
        if definition.get("logicalType") == "decimal":
            exponent = -definition.get("scale", 0)
            return lambda value: value is not None and value.as_tuple().exponent != exponent
        if kind == "record":
            inner = [(f["name"], self._int_check(f["type"])) for f in definition["fields"]]
            checks = [(name, check) for name, check in inner if check is not None]
            return _any_field(checks) if checks else None
        if kind in ("array", "map"):
            check = self._int_check(definition["items" if kind == "array" else "values"])
            return None if check is None else _any_item(check, is_map=kind == "map")
        return None


def _any_field(checks: list[tuple[str, OverLimit]]) -> OverLimit:
    return lambda value: value is not None and any(check(value[name]) for name, check in checks)


def _any_item(check: OverLimit, *, is_map: bool) -> OverLimit:
    if is_map:
        return lambda value: value is not None and any(map(check, value.values()))
    return lambda value: value is not None and any(map(check, value))


def load(text: str) -> AvroType:
    """The JSON of a schema's text; the bare name of a primitive type is allowed, as in Confluent's registry.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
    """
    if text.strip() in _PRIMITIVES:
        return text.strip()
    try:
        definition: AvroType = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("INVALID_SCHEMA", f"the Avro schema is no JSON: {error}; it is {text[:200]!r}") from error
    return definition


def inlined(definition: AvroType, named: Mapping[str, AvroType]) -> AvroType:
    """The schema with the first mention of each name that is defined elsewhere replaced by its definition.

    Args:
        definition: the schema as JSON.
        named: definitions by full name.

    Raises:
        ConfigError: `INVALID_SCHEMA`.
    """
    seen: set[str] = set()

    def walk(schema: AvroType, namespace: str) -> AvroType:
        if isinstance(schema, str):
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            full = full if full in named else schema
            if schema in _PRIMITIVES or full not in named or full in seen:
                return schema
            seen.add(full)
            space, _, short = full.rpartition(".")
            if not isinstance(found := named[full], dict):
                raise TypeError(f"{full} is defined as {found!r:.100}")
            return walk({**found, "name": short, "namespace": space}, space)
        if isinstance(schema, list):
            return [walk(branch, namespace) for branch in schema]
        copied = dict(schema)
        own = str(copied.get("name", ""))
        space = own.rpartition(".")[0] or copied.get("namespace", namespace)
        if isinstance(copied.get("type"), dict | list):
            copied["type"] = walk(copied["type"], namespace)
        for inner in ("items", "values"):
            if inner in copied:
                copied[inner] = walk(copied[inner], namespace)
        if "fields" in copied:
            copied["fields"] = [{**field, "type": walk(field["type"], space)} for field in copied["fields"]]
        if isinstance(copied.get("type"), str) and copied["type"] not in (*_PRIMITIVES, "record", "enum", "fixed"):
            copied["type"] = copied["type"] if copied["type"] in ("array", "map") else walk(copied["type"], namespace)
        return copied

    try:
        return walk(definition, "")
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:  # whatever odd JSON leads to
        raise ConfigError("INVALID_SCHEMA", f"not an Avro schema: {error or type(error).__name__}") from error


def _parse(definition: AvroType) -> AvroType:
    try:
        import fastavro
    except ImportError as error:
        raise MissingRequirementError(
            "PACKAGE_MISSING", f"Avro needs the extra: pip install 'hayase[schema-registry]' ({error})"
        ) from error
    try:
        check_depth(definition)
        parsed = fastavro.parse_schema(_without_foreign_types(definition))
    except Exception as error:  # fastavro's own errors, and whatever odd JSON leads to
        raise ConfigError("INVALID_SCHEMA", f"not an Avro schema: {error or type(error).__name__}") from error
    if isinstance(parsed, dict) and parsed["type"] in _PRIMITIVES and "logicalType" not in parsed:
        return str(parsed["type"])
    return parsed


def _without_foreign_types(schema: AvroType) -> AvroType:
    """Without the logical types that are read as what they are written in."""
    if isinstance(schema, list):
        return [_without_foreign_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: part for name, part in schema.items() if not name.startswith("__")}
    kind, logical = kept.get("type"), kept.get("logicalType")
    if logical is not None and (not isinstance(kind, str) or (kind, logical) not in {*_LOGICAL, *_DECIMALS}):
        del kept["logicalType"]
    if isinstance(kind, dict | list):
        return _without_foreign_types(kind)
    for inner in ("items", "values"):
        if inner in kept:
            kept[inner] = _without_foreign_types(kept[inner])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": _without_foreign_types(field["type"])} for field in kept["fields"]]
    return kept


def _collect_names(schema: AvroType, named: dict[str, JsonObject]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect_names(branch, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for inner in ("type", "items", "values"):
            if isinstance(schema.get(inner), dict | list):
                _collect_names(schema[inner], named)
        for field in schema.get("fields", ()):
            _collect_names(field["type"], named)
