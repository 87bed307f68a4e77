"""Every serde with valid bytes of it, for fuzz tests."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import polars as pl

from hayase.core.records import Change, Window, Windowed
from hayase.serde import (
    HeadersSerde,
    JsonSerde,
    PlainSerde,
    Serde,
    Serdes,
    SessionWindowedSerde,
    StructSerde,
    TimeWindowedSerde,
    ValueAndHeaders,
)
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.changes import ChangeSerde
from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.serde.subscriptions import (
    Answer,
    AnswerSerde,
    CombinedKeySerde,
    Instruction,
    Subscription,
    SubscriptionSerde,
)
from hayase.testing import SchemaRegistryServer


@dataclasses.dataclass
class Order:
    """A value of a user."""

    id: int
    name: str
    prices: list[float]
    paid: bool = False
    note: str | None = None


class Case(NamedTuple):
    """A serde and what it wrote."""

    serde: Serde[Any]
    corpus: list[bytes]


def _avro(*fields: Any, name: str = "R") -> Any:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(fields)]}


_ITEM = _avro("string", ["null", "long"], name="Item")
_ARRAY, _MAP = {"type": "array", "items": _ITEM}, {"type": "map", "values": "double"}
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
_FIXED = {"type": "fixed", "name": "D", "size": 6, "logicalType": "decimal", "precision": 12, "scale": 2}
_TIME = {"type": "long", "logicalType": "timestamp-micros"}
_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
_TREE = {"type": "record", "name": "T", "fields": [{"name": "of", "type": {"type": "array", "items": ["null", "T"]}}]}
_NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
_ITEMS = [{"f0": "a", "f1": 5}, {"f0": "", "f1": None}]
AVRO: dict[str, tuple[Any, list[Any]]] = {
    "avro": (
        _avro("int", "long", "string", "boolean", "double", "float"),
        [{"f0": 1, "f1": 2, "f2": "x", "f3": True, "f4": 0.5, "f5": 1.5}],
    ),
    "avro nested": (
        _avro(_ARRAY, _MAP, ["null", "string"]),
        [{"f0": _ITEMS, "f1": {"a": 1.0}, "f2": None}, {"f0": [], "f1": {}, "f2": "b"}],
    ),
    "avro arrays": (
        _avro(_ARRAY, _ENUM, {"type": "array", "items": "int"}), [{"f0": _ITEMS, "f1": "B", "f2": [1, 2, 3]}],
    ),
    "avro logical": (
        _avro(_DECIMAL, _TIME, {"type": "int", "logicalType": "date"}, "bytes", ["null", _FIXED]),
        [
            {"f0": Decimal("1.25"), "f1": _NOW, "f2": _NOW.date(), "f3": b"xy", "f4": Decimal("-7.00")},
            {"f0": Decimal("-99999.99"), "f1": _NOW, "f2": _NOW.date(), "f3": b"", "f4": None},
        ],
    ),
    "avro times": (
        _avro(_TIME, {"type": "long", "logicalType": "timestamp-millis"}, {"type": "int", "logicalType": "date"}),
        [{"f0": _NOW, "f1": _NOW, "f2": _NOW.date()}],
    ),
    "avro tree": (_TREE, [{"of": [None, {"of": [{"of": []}]}]}]),
    "avro nulls": (_avro({"type": "array", "items": "null"}, "int"), [{"f0": [None] * 5, "f1": 7}]),
    "avro string": ("string", ["hello", ""]),
    "avro bytes": ("bytes", [b"hello", b""]),
    "avro long": ("long", [1, -(2**63), 2**63 - 1]),
}  # fmt: skip
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Line { string item = 1; sint64 count = 2; }
message Order {
  int64 id = 1; string name = 2; repeated Line lines = 3; map<string, int32> tags = 4; optional bool paid = 5;
  google.protobuf.Timestamp at = 6; bytes raw = 7; double price = 8; Kind kind = 9; repeated fixed32 numbers = 10;
  google.protobuf.Duration took = 11; google.protobuf.Int64Value maybe = 12;
}
enum Kind { NONE = 0; BIG = 1; }
"""
TREE_PROTO = """syntax = "proto3"; import "google/protobuf/struct.proto";
message N { N next = 1; google.protobuf.Struct any = 2; }"""
MESSAGE = {
    "id": 1, "name": "x", "lines": [{"item": "a", "count": -5}], "tags": {"k": 1}, "paid": True, "at": _NOW,
    "raw": b"\0\xff", "price": 2.5, "kind": "BIG", "numbers": [1, 2], "took": dt.timedelta(seconds=5), "maybe": 7,
}  # fmt: skip
_DICT = {"id": 5, "name": "é", "n": {"a": 1, "b": [1.5, None]}, "tags": ["x"]}
_SCHEMA = {
    "id": pl.Int64, "name": pl.String, "n": pl.Struct({"a": pl.Int32, "b": pl.List(pl.Float64)}),
    "tags": pl.List(pl.String),
}  # fmt: skip
_WINDOWED = [Windowed("key", Window(1000, 1010)), Windowed("", Window(0, 10))]


def plain_cases() -> dict[str, Case]:
    """Those without a registry."""
    json_serde = JsonSerde(schema=_SCHEMA)
    fixed = StructSerde({"a": pl.Int64, "b": pl.Boolean, "c": pl.Float64, "d": pl.Int8})
    packed = StructSerde({"a": pl.Int64, "s": pl.String, "l": pl.List(pl.Int32), "b": pl.Binary})
    subscriptions = [Subscription(Instruction(n), None if n < 2 else b"d" * 16, 3, "left") for n in range(4)]
    values: list[tuple[str, Serde[Any], list[Any]]] = [
        ("string", Serdes.string(), ["text", "é€😀", ""]),
        ("bytes", Serdes.bytes(), [b"x", b""]),
        ("long", Serdes.long(), [1, -1, 2**63 - 1]),
        ("integer", Serdes.integer(), [1, -1]),
        ("short", Serdes.short(), [1, -1]),
        ("double", Serdes.double(), [1.5, float("inf")]),
        ("float", Serdes.float(), [1.5, -0.0]),
        ("boolean", Serdes.boolean(), [True, False]),
        ("uuid", Serdes.uuid(), [UUID(int=2**100)]),
        ("list of long", Serdes.list(Serdes.long()), [[1, None, 3], []]),
        ("list of string", Serdes.list(Serdes.string()), [["a", None, ""], []]),
        ("list of lists", Serdes.list(Serdes.list(Serdes.short())), [[[1], None, []]]),
        ("time windowed", TimeWindowedSerde(Serdes.string(), 10), _WINDOWED),
        ("session windowed", SessionWindowedSerde(Serdes.string()), _WINDOWED),
        (
            "headers", HeadersSerde(Serdes.string()),
            [ValueAndHeaders("v", (("a", b"x"), ("b", None))), ValueAndHeaders("")],
        ),
        ("json", json_serde, [_DICT, {"id": None, "name": None, "n": None, "tags": None}]),
        ("json of anything", JsonSerde(), [_DICT, [1, "a", None, {"x": {}}], 1.5, "t"]),
        ("json of a type", JsonSerde(Order), [Order(1, "a", [1.0], True, "n"), Order(0, "", [])]),
        (
            "struct of fixed width", fixed,
            [{"a": 1, "b": True, "c": 0.5, "d": -1}, {"a": None, "b": None, "c": None, "d": None}],
        ),
        (
            "struct", packed,
            [{"a": 1, "s": "x", "l": [1, None], "b": b"y"}, {"a": None, "s": None, "l": None, "b": None}],
        ),
        ("change", ChangeSerde(json_serde), [Change(_DICT, None), Change(None, _DICT), Change(_DICT, _DICT)]),
        ("subscription", SubscriptionSerde(Serdes.string()), subscriptions),
        ("answer", AnswerSerde(json_serde), [Answer(b"d" * 16, 1, _DICT), Answer(b"d" * 16, 1, None)]),
        ("combined key", CombinedKeySerde(Serdes.string(), Serdes.long()), [("foreign", 5), ("", 1)]),
        (
            "plain", PlainSerde(),
            [(1, {2.5: [b"x", None]}, {3}, _NOW, Decimal("1.5"), 2**100), "a", {"b": frozenset({1})}],
        ),
    ]  # fmt: skip
    cases = {name: Case(serde, [serde.to_bytes(value) for value in found]) for name, serde, found in values}
    cases["void"] = Case(Serdes.void(), [b""])
    return cases


@cache
def registry() -> SchemaRegistry:
    """A registry that runs as long as the process."""
    server = SchemaRegistryServer()
    server.__enter__()
    return SchemaRegistry(server.url, {"max.retries": 0})


@cache
def registry_cases() -> dict[str, Case]:
    """Those of a registry, and some that read by another schema than the records were written by."""
    found: dict[str, Case] = {}
    values: list[tuple[str, Serde[Any], list[Any]]] = [
        *((name, AvroSerde(schema, registry()), given) for name, (schema, given) in AVRO.items()),
        ("protobuf", ProtobufSerde(PROTO, registry(), message="Order"), [MESSAGE, {}]),
        (
            "protobuf tree",
            ProtobufSerde(TREE_PROTO, registry()),
            [{"next": {"next": {}}, "any": {"a": [1, {"b": None}]}}],
        ),
        ("json schema", JsonSchemaSerde(Order, registry()), [Order(1, "a", [1.0], True, "n"), Order(0, "", [])]),
    ]
    for name, serde, given in values:
        bound = serde.for_topic(name.replace(" ", "-"), "value", {})
        found[name] = Case(bound, [bound.to_bytes(value) for value in given])
    found["avro resolved"] = Case(
        AvroSerde(_avro("long", "double", {"type": "string"}), registry()), found["avro"].corpus
    )
    found["avro as written"] = Case(AvroSerde(None, registry()), [data for name in AVRO for data in found[name].corpus])
    found["protobuf as written"] = Case(
        ProtobufSerde(None, registry()), found["protobuf"].corpus + found["protobuf tree"].corpus
    )
    return found


def hostile_schemas() -> list[RegistrySchema]:
    """Valid schemas that a fuzzer damages."""
    avro = [RegistrySchema(json.dumps(schema)) for schema, _ in AVRO.values()]
    return [*avro, RegistrySchema(PROTO, "PROTOBUF"), RegistrySchema(TREE_PROTO, "PROTOBUF")]


NAMES = [
    *plain_cases(),
    *AVRO,
    "protobuf",
    "protobuf tree",
    "json schema",
    "avro resolved",
    "avro as written",
    "protobuf as written",
]


def case(name: str) -> Case:
    """One of them."""
    plain = plain_cases()
    return plain[name] if name in plain else registry_cases()[name]
