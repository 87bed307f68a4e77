"""Converters with a schema registry: Avro, JSON Schema, Protobuf."""

from __future__ import annotations

import datetime as dt
import importlib
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from hayase import Serdes
from hayase.connect.converters import ALIASES
from hayase.connect.exceptions import DataError, RetriableError
from hayase.connect.plugins import Plugins, PluginType
from hayase.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    ConnectSchema,
    array_schema,
    decimal_schema,
    map_schema,
    struct_schema,
)
from hayase.serde.registry import RegistrySchema, SchemaRegistry
from hayase.testing.schema_registry import SchemaRegistryServer

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
ALL = (AVRO, JSON_SCHEMA, PROTOBUF)
ADDRESS = struct_schema({"city": STRING_SCHEMA, "zip": OPTIONAL_STRING_SCHEMA}, name="shop.Address")
EVERYTHING = struct_schema(
    {
        "flag": BOOLEAN_SCHEMA,
        "tiny": INT8_SCHEMA,
        "small": INT16_SCHEMA,
        "number": INT32_SCHEMA,
        "big": INT64_SCHEMA,
        "single": FLOAT32_SCHEMA,
        "double": FLOAT64_SCHEMA,
        "text": OPTIONAL_STRING_SCHEMA,
        "raw": BYTES_SCHEMA,
        "price": decimal_schema(2),
        "day": DATE_SCHEMA,
        "time": TIME_SCHEMA,
        "at": TIMESTAMP_SCHEMA,
        "tags": array_schema(STRING_SCHEMA),
        "counts": map_schema(STRING_SCHEMA, INT32_SCHEMA),
        "numbers": map_schema(INT32_SCHEMA, STRING_SCHEMA),
        "home": ADDRESS,
        "work": ADDRESS.as_optional(),
        "places": array_schema(ADDRESS),
    },
    name="shop.Everything",
)
VALUE = {
    "flag": True,
    "tiny": -8,
    "small": 300,
    "number": 70_000,
    "big": 2**62,
    "single": 0.5,
    "double": 1e300,
    "text": "ä",
    "raw": b"\0\xff",
    "price": Decimal("-12.50"),
    "day": dt.date(2024, 2, 29),
    "time": dt.time(1, 2, 3, 4000),
    "at": dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC),
    "tags": ["a", "b"],
    "counts": {"a": 1},
    "numbers": {1: "a"},
    "home": {"city": "Kyoto", "zip": "600"},
    "work": None,
    "places": [{"city": "Nara", "zip": "1"}],
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as server:
        yield server


def converter(name: str, registry: SchemaRegistryServer, *, is_key: bool = False, **props: str) -> Any:
    module, _, cls = ALIASES[name].partition(":")
    made = getattr(importlib.import_module(module), cls)()
    settings = {key.replace("_", "."): value for key, value in props.items()}
    made.configure({"schema.registry.url": registry.url, **settings}, is_key)
    return made


@pytest.mark.parametrize("name", ALL)
def test_a_value_of_every_type_comes_back_as_it_was(name: str, registry: SchemaRegistryServer) -> None:
    data = converter(name, registry).from_connect_data("orders", (), EVERYTHING, VALUE)
    assert data[:5] == b"\0\0\0\0\1"
    assert SchemaRegistry(registry.url).subjects() == ["orders-value"]
    schema, value = converter(name, registry).to_connect_data("orders", (), data)
    assert value == VALUE
    assert schema.name == "shop.Everything"
    assert [field.schema.type for field in schema.fields] == [field.schema.type for field in EVERYTHING.fields]
    if name != PROTOBUF:  # names of messages inside of a message begin with its name
        assert [field.schema.name for field in schema.fields] == [field.schema.name for field in EVERYTHING.fields]


@pytest.mark.parametrize("name", [AVRO, JSON_SCHEMA])
def test_the_schema_comes_back_as_it_was(name: str, registry: SchemaRegistryServer) -> None:
    schema = struct_schema(
        {
            "id": INT64_SCHEMA.named("shop.Id", version=3, parameters={"unit": "piece"}),
            "count": INT32_SCHEMA.with_default(7),
            "size": OPTIONAL_INT32_SCHEMA.with_default(8),
            "price": decimal_schema(3, optional=True),
            "raw": BYTES_SCHEMA.with_default(b"\0\xfe"),
        },
        name="shop.Item",
        version=2,
        doc="An item.",
    )
    value = {"id": 1, "count": 2, "size": None, "price": None, "raw": b"x"}
    data = converter(name, registry).from_connect_data("items", (), schema, value)
    found, read = converter(name, registry).to_connect_data("items", (), data)
    assert found == schema
    assert read == {**value, "size": 8}


@pytest.mark.parametrize("name", ALL)
def test_null_is_null_and_no_schema_is_registered(name: str, registry: SchemaRegistryServer) -> None:
    made = converter(name, registry)
    assert made.from_connect_data("orders", (), None, None) is None
    assert made.from_connect_data("orders", (), EVERYTHING.as_optional(), None) is None
    assert made.to_connect_data("orders", (), None) == (None, None)
    assert registry.requests == []


@pytest.mark.parametrize("name", ALL)
def test_a_changed_schema_is_a_new_version_and_older_records_are_still_read(
    name: str, registry: SchemaRegistryServer
) -> None:
    made = converter(name, registry, is_key=True)
    old = struct_schema({"id": INT32_SCHEMA}, name="shop.Key")
    new = struct_schema({"id": INT32_SCHEMA, "region": OPTIONAL_STRING_SCHEMA}, name="shop.Key")
    first = made.from_connect_data("orders", (), old, {"id": 1})
    second = made.from_connect_data("orders", (), new, {"id": 2, "region": "eu"})
    assert SchemaRegistry(registry.url).versions("orders-key") == [1, 2]
    assert made.to_connect_data("orders", (), first).value == {"id": 1}
    assert made.to_connect_data("orders", (), second).value == {"id": 2, "region": "eu"}


@pytest.mark.parametrize("name", ALL)
def test_a_registry_that_is_away_is_tried_again(name: str) -> None:
    with SchemaRegistryServer() as server:
        pass
    made = converter(name, server, **{"schema.registry.max.retries": "0"})
    with pytest.raises(RetriableError, match="SCHEMA_REGISTRY_UNREACHABLE"):
        made.from_connect_data("orders", (), struct_schema({"id": INT32_SCHEMA}), {"id": 1})


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("data", [b"", b"{}", b"\0\0\0\0", b"\0\0\0\0\7x", b"\0\0\0\0\1\xff\xff\xff"])
def test_other_bytes_are_refused(name: str, data: bytes, registry: SchemaRegistryServer) -> None:
    made = converter(name, registry)
    made.from_connect_data("orders", (), struct_schema({"id": STRING_SCHEMA}), {"id": "1"})
    with pytest.raises(DataError):
        made.to_connect_data("orders", (), data)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", [{"id": "text"}, {}, {"id": 2**40}, {"id": True}, [1]])
def test_values_that_do_not_fit_are_refused(name: str, value: object, registry: SchemaRegistryServer) -> None:
    with pytest.raises(DataError):
        converter(name, registry).from_connect_data("orders", (), struct_schema({"id": INT32_SCHEMA}), value)


@pytest.mark.parametrize("name", ALL)
def test_schemas_are_not_registered_where_that_is_forbidden(name: str, registry: SchemaRegistryServer) -> None:
    made = converter(name, registry, auto_register_schemas="false")
    with pytest.raises(DataError, match="SCHEMA_NOT_FOUND"):
        made.from_connect_data("orders", (), struct_schema({"id": INT32_SCHEMA}), {"id": 1})


@pytest.mark.parametrize(("short", "name"), [("AvroConverter", AVRO), ("Avro", AVRO), ("Protobuf", PROTOBUF)])
def test_short_names_mean_the_same(short: str, name: str) -> None:
    assert Plugins(entry_points=False).find(short, PluginType.CONVERTER).name == name


def test_what_the_avro_converter_writes_is_what_the_serde_reads(registry: SchemaRegistryServer) -> None:
    schema = struct_schema({"id": INT32_SCHEMA, "price": decimal_schema(2), "day": DATE_SCHEMA}, name="shop.Order")
    value = {"id": 1, "price": Decimal("2.50"), "day": dt.date(2024, 2, 29)}
    data = converter(AVRO, registry).from_connect_data("orders", (), schema, value)
    serde = Serdes.avro(None, registry.url).for_topic("orders", "value", {})
    assert serde.deserialize(data) == value
    (version,) = SchemaRegistry(registry.url).versions("orders-value")
    definition = json.loads(SchemaRegistry(registry.url).version("orders-value", version).schema.text)
    assert definition["connect.name"] == "shop.Order"
    assert definition["fields"][1]["type"]["logicalType"] == "decimal"


def test_names_and_versions_of_connect_can_be_left_out_of_avro(registry: SchemaRegistryServer) -> None:
    schema = struct_schema({"id": INT8_SCHEMA}, name="shop.Order", version=2)
    converter(AVRO, registry, connect_meta_data="false").from_connect_data("orders", (), schema, {"id": 1})
    text = SchemaRegistry(registry.url).latest("orders-value").schema.text
    assert "connect." not in text


def test_avro_of_other_programs_is_read(registry: SchemaRegistryServer) -> None:
    definition = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "either", "type": ["null", "string", "long"]},
        ],
    }
    serde = Serdes.avro(definition, registry.url).for_topic("orders", "value", {})
    at = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    data = serde.serialize({"state": "NEW", "hash": b"ab", "at": at, "either": 5})
    schema, value = converter(AVRO, registry).to_connect_data("orders", (), data)
    assert value == {"state": "NEW", "hash": b"ab", "at": 1_000_000, "either": {"string": None, "long": 5}}
    assert schema.field("either").schema.name == "io.confluent.connect.avro.Union"


def test_a_schema_that_holds_itself_is_refused(registry: SchemaRegistryServer) -> None:
    definition = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"], "default": None}],
    }
    data = Serdes.avro(definition, registry.url).for_topic("t", "value", {}).serialize({"next": None})
    with pytest.raises(DataError, match="holds itself"):
        converter(AVRO, registry).to_connect_data("t", (), data)


@pytest.mark.parametrize("value", [True, 7, 1.5, "text", b"raw"])
def test_plain_values_without_a_schema_can_be_avro(value: object, registry: SchemaRegistryServer) -> None:
    data = converter(AVRO, registry).from_connect_data("t", (), None, value)
    assert converter(AVRO, registry).to_connect_data("t", (), data).value == value


def test_json_schema_of_other_programs_is_read(registry: SchemaRegistryServer) -> None:
    document = {
        "type": "object",
        "title": "Order",
        "properties": {"id": {"type": "integer"}, "to": {"$ref": "#/definitions/Address"}, "note": {"type": "string"}},
        "required": ["id"],
        "definitions": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    serde = Serdes.json_schema(document, registry.url).for_topic("orders", "value", {})
    data = serde.serialize({"id": 1, "to": {"city": "Kyoto"}})
    made = converter(JSON_SCHEMA, registry, use_optional_for_nonrequired="true")
    assert made.to_connect_data("orders", (), data).value == {"id": 1, "to": {"city": "Kyoto"}, "note": None}
    with pytest.raises(DataError, match="null"):
        converter(JSON_SCHEMA, registry).to_connect_data("orders", (), data)


def test_null_stays_null_in_protobuf_where_fields_are_optional(registry: SchemaRegistryServer) -> None:
    schema = struct_schema({"a": OPTIONAL_INT32_SCHEMA, "b": OPTIONAL_STRING_SCHEMA}, name="shop.Pair")
    value = {"a": None, "b": "x"}
    plain, optional = (converter(PROTOBUF, registry, optional_for_nullables=flag) for flag in ("false", "true"))
    data = plain.from_connect_data("plain", (), schema, value)
    assert plain.to_connect_data("plain", (), data).value == {"a": 0, "b": "x"}
    data = optional.from_connect_data("optional", (), schema, value)
    assert optional.to_connect_data("optional", (), data).value == value


def test_protobuf_of_other_programs_is_read(registry: SchemaRegistryServer) -> None:
    text = (
        'syntax = "proto3"; message Order { int32 id = 1; State state = 5; repeated Item items = 6; '
        "enum State { NEW = 0; DONE = 1; } message Item { string name = 1; } }"
    )
    serde = Serdes.protobuf(text, registry.url).for_topic("orders", "value", {})
    data = serde.serialize({"id": 7, "state": "DONE", "items": [{"name": "pen"}]})
    schema, value = converter(PROTOBUF, registry).to_connect_data("orders", (), data)
    assert value == {"id": 7, "state": "DONE", "items": [{"name": "pen"}]}
    assert schema.field("state").schema.parameters["io.confluent.connect.protobuf.Tag"] == "5"


def test_user_and_password_come_from_confluents_keys() -> None:
    with SchemaRegistryServer(user_info="ada:secret") as server:
        made = converter(
            AVRO, server, basic_auth_credentials_source="USER_INFO",
            **{"schema.registry.basic.auth.user.info": "ada:secret"},
        )  # fmt: skip
        assert made.from_connect_data("t", (), STRING_SCHEMA, "hi") == b"\0\0\0\0\1\4hi"


def test_a_schema_that_the_registry_refuses_is_a_fault_of_the_record(registry: SchemaRegistryServer) -> None:
    SchemaRegistry(registry.url).register("t-value", RegistrySchema('{"type": "object"}', "JSON"))
    with pytest.raises(DataError):
        converter(AVRO, registry).from_connect_data("t", (), STRING_SCHEMA, "hi")


class TestColumns:
    """Records that a sink takes by column."""

    @pytest.mark.parametrize("name", ALL)
    def test_are_the_values_read_one_by_one(self, name: str, registry: SchemaRegistryServer) -> None:
        made = converter(name, registry)
        given = [{**VALUE, "number": number, "text": None if number % 3 else str(number)} for number in range(20)]
        data = [made.from_connect_data("orders", (), EVERYTHING, value) for value in given]
        data[5] = data[11] = None
        columns = made.to_connect_columns("orders", data)
        read = [made.to_connect_data("orders", (), each) for each in data if each is not None]
        assert len(columns) == 20
        assert columns.present == [row for row in range(20) if row not in (5, 11)]
        assert columns.schema == read[0].schema
        assert {each: columns.column(each) for each in columns.names} == {
            each: [value[each] for _, value in read] for each in VALUE
        }

    @pytest.mark.parametrize("name", ALL)
    def test_are_not_there_for_records_of_two_schemas(self, name: str, registry: SchemaRegistryServer) -> None:
        made = converter(name, registry)
        old, new = (
            struct_schema({"id": INT32_SCHEMA, **more}, name="shop.Row")
            for more in ({}, {"text": OPTIONAL_STRING_SCHEMA})
        )
        data = [made.from_connect_data("orders", (), schema, {"id": 1}) for schema in (old, new)]
        assert made.to_connect_columns("orders", data) is None
        assert made.to_connect_columns("orders", data[:1]).column("id") == [1]

    @pytest.mark.parametrize("name", ALL)
    def test_are_not_there_where_bytes_are_broken(self, name: str, registry: SchemaRegistryServer) -> None:
        made = converter(name, registry)
        row = struct_schema({"id": INT32_SCHEMA, "text": STRING_SCHEMA}, name="shop.Row")
        data = made.from_connect_data("orders", (), row, {"id": 1, "text": "some text"})
        assert made.to_connect_columns("orders", [data, data[:-3]]) is None

    @pytest.mark.parametrize(("schema", "values"), [
        (STRING_SCHEMA, ["text", "ä"]), (INT64_SCHEMA, [7, -(2**62)]), (decimal_schema(2), [Decimal("1.50")]),
        (OPTIONAL_STRING_SCHEMA, ["text"]), (BYTES_SCHEMA, [b"\0", b""]), (array_schema(INT32_SCHEMA), [[1], []]),
    ])  # fmt: skip
    @pytest.mark.parametrize("name", [AVRO, JSON_SCHEMA])
    def test_are_one_column_for_values_that_are_no_structs(
        self, name: str, schema: ConnectSchema, values: list[object], registry: SchemaRegistryServer
    ) -> None:
        made = converter(name, registry, is_key=True)
        data = [made.from_connect_data("orders", (), schema, value) for value in values]
        column = made.to_connect_columns("orders", [None, *data])
        assert column.values == [None, *values]
        assert column.schema == made.to_connect_data("orders", (), data[0]).schema

    @pytest.mark.parametrize("name", [AVRO, JSON_SCHEMA])
    def test_are_not_there_for_maps(self, name: str, registry: SchemaRegistryServer) -> None:
        made = converter(name, registry)
        data = made.from_connect_data("orders", (), map_schema(STRING_SCHEMA, INT32_SCHEMA), {"a": 1})
        assert made.to_connect_columns("orders", [data]) is None

    @pytest.mark.parametrize("name", ALL)
    def test_of_rows_that_optional_structs_hold_are_there(self, name: str, registry: SchemaRegistryServer) -> None:
        made = converter(name, registry)
        row = struct_schema({"id": INT32_SCHEMA, "home": ADDRESS.as_optional()}, name="shop.Row").as_optional()
        envelope = struct_schema({"before": row, "after": row, "op": STRING_SCHEMA}, name="shop.Envelope")
        rows = [{"id": 1, "home": None}, {"id": 2, "home": {"city": "Nara", "zip": None}}, None]
        given = [{"before": None, "after": each, "op": "c"} for each in rows]
        data = [made.from_connect_data("orders", (), envelope, each) for each in given]
        after = made.to_connect_columns("orders", [None, *data]).struct("after")
        assert after.present == [1, 2]
        read = [made.to_connect_data("orders", (), each).value["after"] for each in data[:2]]
        assert [after.column("id"), after.column("home")] == [
            [each["id"] for each in read],
            [each["home"] for each in read],
        ]

    def test_tell_records_in_unions_from_maps_and_from_each_other(self, registry: SchemaRegistryServer) -> None:
        records = [
            {"type": "record", "name": each, "fields": [{"name": "id", "type": "int"}]} for each in ("Row", "Other")
        ]
        unions: dict[str, list[object]] = {
            "two": [*records], "named": ["null", "Row"], "mapped": ["Row", {"type": "map", "values": "int"}],
        }  # fmt: skip
        for names in (["two", "named"], ["two", "named", "mapped"]):
            fields = [{"name": each, "type": unions[each]} for each in names]
            serde = Serdes.avro({"type": "record", "name": "All", "fields": fields}, registry.url)
            topic = f"orders{len(names)}"
            given = {"two": ("Other", {"id": 1}), "named": {"id": 2}, "mapped": {"a": 3}}
            data = serde.for_topic(topic, "value", {}).serialize({each: given[each] for each in names})
            made = converter(AVRO, registry)
            columns, (_, value) = made.to_connect_columns(topic, [data]), made.to_connect_data(topic, (), data)
            wanted = {
                "two": {"Row": None, "Other": {"id": 1}}, "named": {"id": 2},
                "mapped": {"Row": None, "map": {"a": 3}},
            }  # fmt: skip
            assert value == {each: wanted[each] for each in names}
            assert {each: columns.column(each) for each in names} == {each: [wanted[each]] for each in names}

    def test_keep_a_default_for_null_as_the_values_do(self, registry: SchemaRegistryServer) -> None:
        made = converter(AVRO, registry)
        row = struct_schema({"id": INT32_SCHEMA, "size": OPTIONAL_INT32_SCHEMA.with_default(8)}, name="shop.Row")
        data = [made.from_connect_data("orders", (), row, {"id": 1, "size": size}) for size in (None, 3)]
        assert made.to_connect_columns("orders", data).column("size") == [
            made.to_connect_data("orders", (), each).value["size"] for each in data
        ]
