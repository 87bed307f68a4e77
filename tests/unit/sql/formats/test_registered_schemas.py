"""Schemas of a registry: columns of them, schemas of columns, reading what others wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hayase.core.errors import SerializationError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.json_schema_serde import JsonSchemaSerde
from hayase.serde.protobuf_serde import ProtobufSerde
from hayase.serde.registry import RegistrySchema, SchemaReference, SchemaRegistry
from hayase.sql.errors import StatementError
from hayase.sql.formats.columns import Column
from hayase.sql.formats.format_info import FULL_SCHEMA_NAME, SCHEMA_ID, FormatInfo
from hayase.sql.formats.inference import infer_columns, register_sink, register_source, schema_to_register
from hayase.sql.formats.serdes import key_serde, value_serde
from hayase.sql.registry import EmbeddedSchemaRegistry
from hayase.sql.types import sql_types as sql
from hayase.testing import SchemaRegistryServer

MONEY = sql.DecimalType(4, 2)
POINT = sql.StructType((("X", sql.INTEGER), ("Y", sql.DOUBLE)))
COLUMNS = [
    Column("A", sql.BOOLEAN),
    Column("B", sql.INTEGER),
    Column("C", sql.BIGINT),
    Column("D", sql.DOUBLE),
    Column("E", sql.STRING),
    Column("F", sql.BYTES),
    Column("G", MONEY),
    Column("H", sql.DATE),
    Column("I", sql.TIME),
    Column("J", sql.TIMESTAMP),
    Column("K", sql.ArrayType(sql.STRING)),
    Column("L", sql.MapType(sql.STRING, POINT)),
    Column("M", POINT),
    Column("N", sql.ArrayType(POINT)),
]


@pytest.fixture
def registry() -> EmbeddedSchemaRegistry:
    return EmbeddedSchemaRegistry()


def record(*fields: Any, name: str = "blah") -> str:
    """An Avro record as text."""
    return json.dumps({"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]})


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_the_columns_of_a_sink_come_back_from_its_schema(name: str, registry: EmbeddedSchemaRegistry) -> None:
    register_sink(FormatInfo(name), "value", COLUMNS, "t", registry)
    assert infer_columns(FormatInfo(name), "value", "t", registry).columns == tuple(COLUMNS)


def test_fields_that_differ_in_case_only_cannot_be_one_struct(registry: EmbeddedSchemaRegistry) -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": n, "type": "int"} for n in ("a", "A")]}
    registry.register("t-value", RegistrySchema(record(("f", inner)), "AVRO"))
    with pytest.raises(StatementError, match="Fields of a record in the schema have one name in SQL: `A`"):
        infer_columns(FormatInfo("AVRO"), "value", "t", registry)


def proto(body: str) -> RegistrySchema:
    """A .proto file."""
    return RegistrySchema(f'syntax = "proto3"; {body}', "PROTOBUF")


def json_object(**properties: Any) -> RegistrySchema:
    """A JSON Schema of an object."""
    definitions = {"flags": {"type": "array", "items": {"type": "boolean"}}}
    schema = {"type": "object", "properties": properties, "definitions": definitions}
    return RegistrySchema(json.dumps(schema), "JSON")


SUIT = {"type": "enum", "name": "s", "symbols": ["X"]}
TEXTS = sql.MapType(sql.STRING, sql.STRING)
LONGS = sql.MapType(sql.STRING, sql.BIGINT)


@pytest.mark.parametrize(
    ("name", "schema", "columns"),
    [
        ("AVRO", RegistrySchema(record(("c1", "float"), ("c2", SUIT))), {"C1": sql.DOUBLE, "C2": sql.STRING}),
        (
            "AVRO",
            RegistrySchema(record(("m", {"type": "map", "values": ["null", "long"]}), ("n", "null"))),
            {"M": LONGS},
        ),
        ("PROTOBUF", proto("message M {uint32 a = 1; fixed64 b = 2;}"), {"A": sql.BIGINT, "B": sql.BIGINT}),
        ("PROTOBUF", proto("message M {enum E {X = 0;} E c = 3; M itself = 4;}"), {"C": sql.STRING}),
        (
            "PROTOBUF",
            proto("import 'google/protobuf/wrappers.proto'; message M {google.protobuf.Int64Value a = 1;}"),
            {"A": sql.BIGINT},
        ),
        ("PROTOBUF", proto('import "google/type/date.proto"; message M {google.type.Date a = 1;}'), {"A": sql.DATE}),
        (
            "JSON_SR",
            json_object(a={"type": "integer"}, b={"type": ["null", "number"]}),
            {"A": sql.BIGINT, "B": sql.DOUBLE},
        ),
        ("JSON_SR", json_object(c={"$ref": "#/definitions/flags"}), {"C": sql.ArrayType(sql.BOOLEAN)}),
        ("JSON_SR", json_object(x={"type": "object", "additionalProperties": {"type": "string"}}), {"X": TEXTS}),
    ],
)
def test_columns_of_schemas_that_others_registered(
    name: str, schema: RegistrySchema, columns: dict[str, sql.SqlType], registry: EmbeddedSchemaRegistry
) -> None:
    registry.register("t-value", schema)
    inferred = infer_columns(FormatInfo(name), "value", "t", registry)
    assert {each.name: each.type for each in inferred.columns} == columns


def test_json_fields_without_noted_order_are_in_that_of_javas_hash_map(registry: EmbeddedSchemaRegistry) -> None:
    number, noted = {"type": "number"}, {"type": "number", "connect.index": 0}
    for fields, names in (
        ({"ID": number, "NAME": number, "VALUE": number}, ["ID", "VALUE", "NAME"]),
        ({"ID": number, "NAME": noted, "VALUE": number}, ["NAME", "ID", "VALUE"]),
    ):
        registry.register(f"{names[0]}-value", json_object(**fields))
        inferred = infer_columns(FormatInfo("JSON_SR"), "value", names[0], registry)
        assert [column.name for column in inferred.columns] == names


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_a_registry_behind_http_does_as_well(name: str) -> None:
    with SchemaRegistryServer() as server:
        registry = SchemaRegistry(server.url)
        register_sink(FormatInfo(name), "value", COLUMNS[:5], "t", registry)
        assert infer_columns(FormatInfo(name), "value", "t", registry).columns == tuple(COLUMNS[:5])
        serde = value_serde(FormatInfo(name), COLUMNS[:5], topic="t", registry=registry)
        row = {"A": True, "B": 1, "C": 2, "D": 3.5, "E": "x"}
        assert serde.deserialize(serde.serialize(row)) == row
        assert registry.versions("t-value") == [1]
        with pytest.raises(StatementError, match="does not exist in the Schema Registry"):
            infer_columns(FormatInfo(name), "key", "t", registry)


def test_names_keep_their_case_if_the_schema_is_given_by_its_id(registry: EmbeddedSchemaRegistry) -> None:
    schema_id = registry.register("t-value", RegistrySchema(record(("c1", "int"))))
    by_id = FormatInfo("AVRO", ((SCHEMA_ID, str(schema_id)),))
    assert infer_columns(by_id, "value", "t", registry).columns == (Column("c1", sql.INTEGER),)


def test_a_bare_schema_is_rowkey_or_rowval(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("t-key", RegistrySchema('"int"'))
    registry.register("t-value", RegistrySchema('"int"'))
    assert infer_columns(FormatInfo("AVRO"), "key", "t", registry).columns == (Column("ROWKEY", sql.INTEGER),)
    bare = FormatInfo("AVRO", wrap=False)
    assert infer_columns(bare, "value", "t", registry).columns == (Column("ROWVAL", sql.INTEGER),)
    with pytest.raises(StatementError, match="WRAP_SINGLE_VALUE=false"):
        infer_columns(FormatInfo("AVRO"), "value", "t", registry)


def test_a_message_is_chosen_by_its_full_name(registry: EmbeddedSchemaRegistry) -> None:
    text = 'syntax = "proto3"; message A {int32 a = 1;} message B {string b = 1;}'
    registry.register("t-value", RegistrySchema(text, "PROTOBUF"))
    format_ = FormatInfo("PROTOBUF", ((FULL_SCHEMA_NAME, "B"),))
    assert infer_columns(format_, "value", "t", registry).columns == (Column("B", sql.STRING),)


def test_schemas_may_refer_to_others(registry: EmbeddedSchemaRegistry) -> None:
    registry.register("event.proto", RegistrySchema('syntax = "proto3"; message Event {int64 ts = 1;}', "PROTOBUF"))
    text = 'syntax = "proto3"; import "event.proto"; message L {Event e = 1;}'
    references = (SchemaReference("event.proto", "event.proto", 1),)
    registry.register("t-value", RegistrySchema(text, "PROTOBUF", references))
    event = sql.StructType((("TS", sql.BIGINT),))
    assert infer_columns(FormatInfo("PROTOBUF"), "value", "t", registry).columns == (Column("E", event),)


def test_a_missing_schema_is_said_with_the_topic(registry: EmbeddedSchemaRegistry) -> None:
    with pytest.raises(StatementError, match="Schema for message values on topic 't' does not exist"):
        infer_columns(FormatInfo("AVRO"), "value", "t", registry)


def test_columns_must_begin_as_the_schema_of_the_id_does(registry: EmbeddedSchemaRegistry) -> None:
    schema_id = registry.register("t-value", RegistrySchema(record(("c2", "double"), ("c1", "int"))))
    by_id = FormatInfo("AVRO", ((SCHEMA_ID, str(schema_id)),))
    assert register_sink(by_id, "value", [Column("c2", sql.DOUBLE)], "t", registry) == schema_id
    with pytest.raises(StatementError, match=r"changed, missing or reordered: \[`c1` INTEGER\]"):
        register_sink(by_id, "value", [Column("c1", sql.INTEGER)], "t", registry)


def test_a_source_registers_only_where_there_is_nothing(registry: EmbeddedSchemaRegistry) -> None:
    assert register_source(FormatInfo("AVRO"), "value", COLUMNS[:1], "t", registry) == 1
    assert register_source(FormatInfo("AVRO"), "value", COLUMNS[:2], "t", registry) is None
    assert registry.versions("t-value") == [1]


def test_an_incompatible_sink_is_refused(registry: EmbeddedSchemaRegistry) -> None:
    register_sink(FormatInfo("AVRO"), "value", [Column("A", sql.STRING)], "t", registry)
    with pytest.raises(StatementError, match="Could not register schema for topic: t"):
        register_sink(FormatInfo("AVRO"), "value", [Column("A", sql.INTEGER)], "t", registry)


def test_avro_is_written_with_connects_notes(registry: EmbeddedSchemaRegistry) -> None:
    format_ = FormatInfo("AVRO", ((FULL_SCHEMA_NAME, "shop.Order"),))
    schema = json.loads(schema_to_register(format_, "value", [Column("V", POINT)]).text)
    assert (schema["name"], schema["namespace"], schema["connect.name"]) == ("Order", "shop", "shop.Order")
    inner = schema["fields"][0]["type"]
    assert inner[0] == "null"
    assert (inner[1]["name"], inner[1]["connect.name"]) == ("Order_V", "shop.Order_V")


def test_a_value_written_by_an_older_schema_is_read_by_name(registry: EmbeddedSchemaRegistry) -> None:
    writer = AvroSerde(record(("a", "int"), ("gone", "string"), ("n", "long")), registry)
    data = writer.for_topic("t", "value", {}).serialize({"a": 1, "gone": "x", "n": 2})
    columns = [Column("N", sql.STRING), Column("A", sql.BIGINT), Column("NEW", sql.DOUBLE)]
    serde = value_serde(FormatInfo("AVRO"), columns, topic="t", registry=registry)
    assert serde.deserialize(data) == {"N": "2", "A": 1, "NEW": None}


def test_what_does_not_fit_the_columns_is_a_bad_record(registry: EmbeddedSchemaRegistry) -> None:
    data = AvroSerde(record(("a", "string")), registry).for_topic("t", "value", {}).serialize({"a": "x"})
    serde = value_serde(FormatInfo("AVRO"), [Column("A", sql.INTEGER)], topic="t", registry=registry)
    with pytest.raises(SerializationError, match="field A"):
        serde.deserialize(data)
    for damaged in (b"", b"\0\0\0\0\x63", data[:-1] if data else b""):
        with pytest.raises(SerializationError):
            serde.deserialize(damaged)


def test_a_value_is_written_by_the_schema_that_was_asked_for(registry: EmbeddedSchemaRegistry) -> None:
    fields = [{"name": "c1", "type": "int"}, {"name": "c2", "type": "int", "default": 7}]
    schema = RegistrySchema(json.dumps({"type": "record", "name": "r", "fields": fields}))
    schema_id = registry.register("other", schema)
    by_id = FormatInfo("AVRO", ((SCHEMA_ID, str(schema_id)),))
    data = value_serde(by_id, [Column("c1", sql.INTEGER)], topic="t", registry=registry).serialize({"c1": 1})
    assert AvroSerde(None, registry).deserialize(data) == {"c1": 1, "c2": 7}


def test_null_is_the_default_where_a_schema_that_was_asked_for_has_no_null(registry: EmbeddedSchemaRegistry) -> None:
    fields = [{"name": "a", "type": "long", "default": 10}, {"name": "b", "type": ["null", "long"]}]
    inner = {"type": "record", "name": "inner", "fields": fields}
    outer = {"type": "record", "name": "outer", "fields": [{"name": "s", "type": inner}, *fields]}
    schema_id = registry.register("other", RegistrySchema(json.dumps(outer)))
    pair = (("a", sql.BIGINT), ("b", sql.BIGINT))
    columns = [Column("s", sql.StructType(pair)), *(Column(*each) for each in pair)]
    serde = value_serde(FormatInfo("AVRO", ((SCHEMA_ID, str(schema_id)),)), columns, topic="t", registry=registry)
    data = serde.serialize({"s": {"a": None, "b": None}, "a": None, "b": 1})
    assert serde.deserialize(data) == {"s": {"a": 10, "b": None}, "a": 10, "b": 1}


def test_protobuf_by_id_writes_only_what_the_columns_have(registry: EmbeddedSchemaRegistry) -> None:
    text = 'syntax = "proto3"; message M { int32 c1 = 1; string c2 = 2; }'
    schema_id = registry.register("other", RegistrySchema(text, "PROTOBUF"))
    by_id = FormatInfo("PROTOBUF", ((SCHEMA_ID, str(schema_id)),))
    data = value_serde(by_id, [Column("c1", sql.INTEGER)], topic="t", registry=registry).serialize({"c1": 1})
    assert ProtobufSerde(None, registry).deserialize(data) == {"c1": 1, "c2": ""}


def test_json_by_id_writes_all_fields_of_the_schema(registry: EmbeddedSchemaRegistry) -> None:
    schema_id = registry.register("other", RegistrySchema('{"properties": {"c1": {}, "c2": {}}}', "JSON"))
    by_id = FormatInfo("JSON_SR", ((SCHEMA_ID, str(schema_id)),))
    data = value_serde(by_id, [Column("c1", sql.INTEGER)], topic="t", registry=registry).serialize({"c1": 1})
    assert JsonSchemaSerde(None, registry).deserialize(data) == {"c1": 1, "c2": None}


def test_protobuf_without_null_has_defaults(registry: EmbeddedSchemaRegistry) -> None:
    serde = value_serde(FormatInfo("PROTOBUF"), COLUMNS, topic="t", registry=registry)
    row = serde.deserialize(serde.serialize(dict.fromkeys("ABCDEFGHIJKLMN")))
    assert row is not None
    assert [row[name] for name in "ABCDEKLM"] == [False, 0, 0, 0.0, "", [], {}, None]


def test_a_protobuf_key_of_one_column_is_a_message_of_it(registry: EmbeddedSchemaRegistry) -> None:
    serde = key_serde(FormatInfo("PROTOBUF"), [Column("K", sql.INTEGER)], topic="t", registry=registry)
    data = serde.serialize(5)
    assert ProtobufSerde(None, registry).deserialize(data) == {"K": 5}
    assert serde.deserialize(data) == 5


def test_lists_of_lists_have_no_protobuf(registry: EmbeddedSchemaRegistry) -> None:
    columns = [Column("A", sql.ArrayType(sql.ArrayType(sql.INTEGER)))]
    with pytest.raises(StatementError, match="STRUCT"):
        register_sink(FormatInfo("PROTOBUF"), "value", columns, "t", registry)
