"""Avro records over a registry: what one serde writes, another reads."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

from hayase.core.errors import SchemaRegistryError, SerializationError
from hayase.serde.avro_serde import AvroSerde
from hayase.serde.registry import SchemaReference, SchemaRegistry

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
AT = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, dt.UTC)
VALUE = {"id": 7, "note": None, "price": Decimal("12.34"), "at": AT}


def both_forms(serde: AvroSerde, data: bytes) -> Any:
    """The value, read in rows and found the same in columns."""
    value, codec = serde.deserialize(data), serde.columns
    assert codec is not None
    decoded = codec.decode_list([data])
    assert decoded.bad == []
    assert codec.to_python(decoded.frame) == [value]
    return value


def test_a_record_is_magic_byte_id_and_avro(registry: SchemaRegistry, topic: str) -> None:
    serde = AvroSerde("string", registry).for_topic(topic, "key", {})
    number = registry.register(f"{topic}-key", serde.registry.schema(registry.register(f"{topic}-key", serde._own)))  # type: ignore[arg-type]
    assert serde.serialize("hi") == b"\0" + number.to_bytes(4, "big") + b"\x04hi"


def test_what_is_written_is_read(registry: SchemaRegistry, topic: str) -> None:
    serde = AvroSerde(ORDER, registry).for_topic(topic, "value", {})
    data = serde.serialize(VALUE)
    assert data is not None and both_forms(serde, data) == VALUE
    assert AvroSerde(None, registry).deserialize(data) == VALUE
    assert registry.versions(f"{topic}-value") == [1]


def test_a_reader_with_another_schema_gets_its_own_fields(registry: SchemaRegistry, topic: str) -> None:
    narrow = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "int"}, {"name": "x", "type": "string"}],
    }
    wide = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "more", "type": ["null", "long"], "default": None},
            {"name": "n", "type": "int", "default": 5},
        ],
    }
    data = AvroSerde(narrow, registry).for_topic(topic, "value", {}).serialize({"id": 1, "x": "y"})
    assert data is not None
    assert both_forms(AvroSerde(wide, registry), data) == {"id": 1, "more": None, "n": 5}


def test_a_record_that_the_reader_cannot_resolve_is_bad(registry: SchemaRegistry, topic: str) -> None:
    other = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    mine = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    data = AvroSerde(other, registry).for_topic(topic, "value", {}).serialize({"id": "x"})
    reader = AvroSerde(mine, registry)
    with pytest.raises(SerializationError, match="can be read as Order"):
        reader.deserialize(data)
    assert reader.columns is not None and len(reader.columns.decode_list([data]).bad) == 1


def test_a_schema_may_use_others_of_the_registry(registry: SchemaRegistry, topic: str) -> None:
    space = topic.replace("-", "_")
    money = {"type": "record", "name": "Money", "namespace": space, "fields": [{"name": "cents", "type": "long"}]}
    registry.register(f"{topic}-m", AvroSerde(money)._own)  # type: ignore[arg-type]
    field = [{"name": "a", "type": f"{space}.Money"}, {"name": "b", "type": ["null", f"{space}.Money"]}]
    bill = {"type": "record", "name": f"{space}.Bill", "fields": field}
    reference = SchemaReference(f"{space}.Money", f"{topic}-m", 1)
    serde = AvroSerde(bill, registry, references=[reference]).for_topic(topic, "value", {})
    data = serde.serialize({"a": {"cents": 1}, "b": None})
    assert data is not None and both_forms(serde, data) == {"a": {"cents": 1}, "b": None}
    assert AvroSerde(None, registry).deserialize(data) == {"a": {"cents": 1}, "b": None}


def test_the_latest_version_decides_what_is_written(registry: SchemaRegistry, topic: str) -> None:
    newest = {**ORDER, "fields": [*ORDER["fields"], {"name": "extra", "type": "int", "default": 9}]}  # type: ignore[misc]
    number = registry.register(f"{topic}-value", AvroSerde(newest)._own)  # type: ignore[arg-type]
    serde = AvroSerde(ORDER, registry, use_latest_version=True).for_topic(topic, "value", {})
    data = serde.serialize(VALUE)
    assert data is not None and int.from_bytes(data[1:5], "big") == number
    assert AvroSerde(None, registry).deserialize(data) == {**VALUE, "extra": 9}
    assert serde.columns is not None
    assert serde.columns.encode(serde.columns.from_python([VALUE])[0]) == [data]


def test_a_serde_without_schema_writes_by_the_latest_version(registry: SchemaRegistry, topic: str) -> None:
    registry.register(f"{topic}-value", AvroSerde(ORDER)._own)  # type: ignore[arg-type]
    serde = AvroSerde(None, registry).for_topic(topic, "value", {})
    assert serde.deserialize(serde.serialize(VALUE)) == VALUE


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("TopicNameStrategy", "{topic}-value"),
        ("RecordNameStrategy", "{record}"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "{topic}-{record}"),
    ],
)
def test_subjects_are_named_by_the_strategy(registry: SchemaRegistry, topic: str, strategy: str, expected: str) -> None:
    name = f"shop.{topic.replace('-', '_')}"
    schema = {"type": "record", "name": name, "fields": []}
    AvroSerde(schema, registry).for_topic(topic, "value", {"value.subject.name.strategy": strategy}).serialize({})
    assert expected.format(topic=topic, record=name) in registry.subjects()


def test_without_registration_a_schema_must_be_there(registry: SchemaRegistry, topic: str) -> None:
    serde = AvroSerde(ORDER, registry, auto_register_schemas=False).for_topic(topic, "value", {})
    with pytest.raises(SchemaRegistryError) as found:
        serde.serialize(VALUE)
    assert found.value.condition == "SCHEMA_NOT_FOUND"
    registry.register(f"{topic}-value", serde._own)  # type: ignore[arg-type]
    assert serde.serialize(VALUE) is not None


def test_an_unknown_id_names_the_id_and_the_registry(registry: SchemaRegistry) -> None:
    serde = AvroSerde(ORDER, registry)
    with pytest.raises(SerializationError, match=f"987654.*{registry.url}") as found:
        serde.deserialize(b"\0" + (987654).to_bytes(4, "big") + b"x")
    assert found.value.condition == "UNKNOWN_SCHEMA_ID"


def test_a_pickled_serde_reads_and_writes_the_same(registry: SchemaRegistry, topic: str) -> None:
    serde = AvroSerde(json.dumps(ORDER), registry).for_topic(topic, "value", {})
    data = serde.serialize(VALUE)
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert (again.serialize(VALUE), again.deserialize(data)) == (data, VALUE)
